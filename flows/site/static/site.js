// Sorts and filters tables, and colours code. Texts are read and written as text, never as markup.
"use strict";

function figure(text) {
  const value = Number(text);
  return text !== "" && !Number.isNaN(value) ? value : null;
}

function compare(one, other) {
  const a = figure(one), b = figure(other);
  if (a !== null && b !== null) return a - b;
  if (a !== null || b !== null) return a !== null ? -1 : 1; // missing values come last
  return one.localeCompare(other);
}

function aligned(row) {
  for (const cell of row.cells)
    if (/^[-+]?\d[\d.]*(…[-+]?\d[\d.]*)?$|^–$/.test(cell.textContent.trim())) cell.classList.add("figure");
}

// A long table shows its first rows, and a button for the rest: a browser takes seconds to lay out thousands.
function foldable(table) {
  const body = table.tBodies[0], more = document.createElement("button");
  const view = { first: [...body.rows].filter((row) => !row.hidden).length, fits: () => true };
  if (view.first === body.rows.length) view.first = Infinity;
  view.show = () => {
    let shown = 0, left = 0;
    for (const row of body.rows) {
      const fits = view.fits(row), hidden = !fits || shown >= view.first;
      if (row.hidden && !hidden) aligned(row);
      row.hidden = hidden;
      if (fits) hidden ? left++ : shown++;
    }
    more.hidden = !left;
    more.textContent = `show ${left} more rows`;
  };
  more.addEventListener("click", () => {
    view.first = Infinity;
    view.show();
  });
  more.className = "more";
  table.after(more);
  view.show();
  return view;
}

function sortable(table, view) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const known = [], missing = [], shown = (row) => meant(row.cells[at]).trim();
      for (const row of body.rows) (["", "–"].includes(shown(row)) ? missing : known).push(row);
      const text = new Map(known.map((row) => [row, shown(row)]));
      known.sort((a, b) => (up ? 1 : -1) * compare(text.get(a), text.get(b)));
      for (const row of [...known, ...missing]) body.append(row);
      view.show();
    });
  });
}

function meant(cell) {
  return cell?.dataset.is ?? cell?.textContent ?? "";
}

function filterable(table, view) {
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
  const row = document.createElement("div"), chosen = new Map();
  row.className = "filters";
  for (const name of table.dataset.filters.split(" ")) {
    const at = heads.indexOf(name), label = document.createElement("label"), select = document.createElement("select");
    const values = [...new Set([...table.tBodies[0].rows].map((one) => meant(one.cells[at])))].sort();
    select.append(new Option("all", ""), ...values.map((value) => new Option(value, value)));
    select.addEventListener("change", () => {
      chosen.set(at, select.value);
      view.fits = (one) => ![...chosen].some(([cell, value]) => value && meant(one.cells[cell]) !== value);
      view.show();
    });
    label.append(`${name} `, select);
    row.append(label);
  }
  table.parentElement.before(row);
}

// Rows of a matrix can be chosen for comparison. Each pair links to its page, or names the command that writes one.
function comparable(table) {
  const pages = new Set(table.dataset.pairs.trim().split(/\s+/)), chosen = document.createElement("p"), picks = [];
  chosen.className = "chosen";
  chosen.setAttribute("aria-live", "polite");
  const update = () => {
    const rows = picks.filter((pick) => pick.checked).map((pick) => pick.closest("tr"));
    chosen.replaceChildren(rows.length === 1 ? "Choose a second row to compare." : "");
    for (let one = 0; one < rows.length; one++)
      for (let other = one + 1; other < rows.length; other++) chosen.append(pairOf(pages, rows[one], rows[other]), " ");
  };
  for (const row of table.tBodies[0].rows) {
    const pick = document.createElement("input");
    pick.type = "checkbox";
    pick.className = "pick";
    pick.title = "compare";
    pick.setAttribute("aria-label", `compare ${row.dataset.label}`);
    pick.addEventListener("change", update);
    picks.push(pick);
    row.cells[0].prepend(pick);
  }
  table.parentElement.after(chosen);
}

function pairOf(pages, one, other) {
  const names = [`${other.dataset.run}-${one.dataset.run}`, `${one.dataset.run}-${other.dataset.run}`];
  const name = names.find((text) => pages.has(text)), link = document.createElement(name ? "a" : "span");
  if (name) link.href = `compared/${name}.html`;
  link.textContent = `${one.dataset.label} and ${other.dataset.label}` +
    (name ? "" : `: no page yet; parley site --compare ${other.dataset.run}:${one.dataset.run} writes it`);
  return link;
}

const WORDS = "and as assert async await boolean break case catch class const continue def del do double elif else except export extends " +
  "final finally float for from function global if implements import in int interface is lambda let new None nonlocal not null or " +
  "package pass private protected public raise return self static String super switch this throw throws True False true false try " +
  "undefined var void while with yield";
const KEYWORDS = new Set(WORDS.split(" "));
const STRING = /("""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*`?)/.source;
const REST = /(\b\d[\w.]*)|([A-Za-z_]\w*)|[^]/.source;
const HASHED = new RegExp(`${STRING}|(#[^\\n]*)|${REST}`, "g");
const SLASHED = new RegExp(`${STRING}|(\\/\\/[^\\n]*|\\/\\*[^]*?(?:\\*\\/|$))|${REST}`, "g");

function coloured(code) {
  const parts = [], hash = code.dataset.lang ? /^(py|python|bash|sh|shell|ruby|yaml|toml)/i.test(code.dataset.lang) :
    !/[;{]\s*$/m.test(code.textContent); // a language has comments with # or with //, not both
  for (const [text, string, comment, number, word] of code.textContent.matchAll(hash ? HASHED : SLASHED)) {
    const kind = string ? "s" : comment ? "m" : number ? "n" : word && KEYWORDS.has(word) ? "k" : "";
    if (!kind && parts.length && parts[parts.length - 1][0] === "") parts[parts.length - 1][1] += text;
    else parts.push([kind, text]);
  }
  code.replaceChildren(...parts.map(([kind, text]) => {
    if (!kind) return text;
    const span = document.createElement("span");
    span.className = kind;
    span.textContent = text;
    return span;
  }));
}

for (const row of document.querySelectorAll("tr:not([hidden])")) aligned(row);
for (const table of document.querySelectorAll("table.sorted")) {
  const view = foldable(table);
  if (table.dataset.filters) filterable(table, view);
  if (table.dataset.pairs !== undefined) comparable(table);
  sortable(table, view);
}
for (const code of document.querySelectorAll("pre.code code")) if (code.textContent.length < 50000) coloured(code);
for (const pre of document.querySelectorAll("pre")) pre.tabIndex = 0; // long lines can be scrolled by keys
for (const box of document.querySelectorAll(".wide")) box.tabIndex = 0;
