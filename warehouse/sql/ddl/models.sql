-- One row per model identity (label, revision, weights, chat template) with its prices.
create table models (
    model varchar not null,
    provider varchar not null,
    name varchar not null,
    revision varchar not null,
    weights_digest varchar not null,
    chat_template varchar not null,
    usd_per_million_input double,
    usd_per_million_output double,
    usd_per_hour double
)
