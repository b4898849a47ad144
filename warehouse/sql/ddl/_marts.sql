-- One row per mart, with the SQL that made it.
create table _marts (
    mart varchar not null,
    kind varchar not null,
    position bigint not null,
    statement varchar not null
)
