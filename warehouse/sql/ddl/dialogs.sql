-- One row per benchmark x dataset version x dialog as it was staged (an edited dialog has a row per row_digest).
create table dialogs (
    benchmark varchar not null,
    dataset_version varchar not null,
    dialog_id varchar not null,
    problem_id varchar not null,
    turns struct(
        turn bigint,
        "role" varchar,
        "content" varchar,
        do_eval boolean,
        reference varchar,
        instruction_id varchar,
        labels struct("key" varchar, "value" varchar)[],
        metrics struct("name" varchar, arguments struct("key" varchar, "value" varchar)[])[]
    )[] not null,
    labels struct("key" varchar, "value" varchar)[] not null,
    row_digest varchar not null,
    problem_digest varchar not null,
    context_id varchar,
    context_turns bigint not null
)
