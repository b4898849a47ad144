-- One row per benchmark x dataset version x context: a conversation before many dialogs (`dialogs.context_id`).
create table contexts (
    benchmark varchar not null,
    dataset_version varchar not null,
    context_id varchar not null,
    turns struct(
        turn bigint,
        "role" varchar,
        "content" varchar,
        do_eval boolean,
        reference varchar,
        instruction_id varchar,
        labels struct("key" varchar, "value" varchar)[],
        metrics struct("name" varchar, arguments struct("key" varchar, "value" varchar)[])[]
    )[] not null
)
