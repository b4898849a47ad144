-- One row per benchmark x dataset version x staged problem (an edited problem has a row per row_digest).
create table problems (
    benchmark varchar not null,
    dataset_version varchar not null,
    problem_id varchar not null,
    level varchar not null,
    prompt varchar not null,
    instructions struct(instruction_id varchar, "text" varchar, suite struct(tests varchar[], kind varchar))[] not null,
    reference_code varchar not null,
    packages varchar[] not null,
    source_file varchar not null,
    source_line bigint not null,
    row_digest varchar not null,
    repo struct(repo varchar, base_commit varchar, test_patch varchar, fail_to_pass varchar[], pass_to_pass varchar[])
)
