// Runs a program for node as its main module, and reports under the run's secret that the program
// reached its end.
//
// Input on stdin: one line with the secret, then the program. After `process.exit` nothing is
// reported. The secret is in a closure, which the language cannot open. Modules that could are
// refused.
"use strict";
const fs = require("fs");
const Module = require("module");
const path = require("path");

(function () {
    const report = Number(process.env.PARLEY_REPORT_FD);
    delete process.env.PARLEY_REPORT_FD;
    const { writeSync } = fs;
    const { create } = Object;
    const input = fs.readFileSync(0, "utf8");
    const secret = input.slice(0, input.indexOf("\n"));
    const program = input.slice(secret.length + 1);
    const reallyExit = process.reallyExit.bind(process);
    const say = (word) => writeSync(report, word);
    say("ready\n");
    const refuse = (reason) => {
        process.stderr.write(reason + "\n");
        reallyExit(1);
    };
    const forbidden = create(null);
    for (const name of ["inspector", "inspector/promises", "v8", "vm", "worker_threads", "repl"]) {
        forbidden[name] = forbidden["node:" + name] = true;
    }
    const load = Module._load;
    Module._load = function (name, ...rest) {
        if (forbidden[name]) refuse("loads " + name + ", which sees into the runner");
        return load.call(this, name, ...rest);
    };
    const refuseNative = () => refuse("loads what sees into the runner");
    process.binding = process._linkedBinding = process.dlopen = refuseNative;
    process.getBuiltinModule = undefined;

    const file = path.join(process.cwd(), "program.js");
    fs.writeFileSync(file, program);
    const main = new Module(file, null);
    main.filename = file;
    main.paths = Module._nodeModulePaths(process.cwd());
    process.argv.splice(1, process.argv.length, file);
    process.mainModule = require.main = main;
    let isThrough = false;
    process.once("beforeExit", () => {
        if (isThrough) say(secret + " ended\n");
    });
    main._compile(program, file);
    isThrough = true;
})();
