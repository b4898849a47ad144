-- One row per metric that is not a share in [0, 1], such as a count or a rating.
create table _scales (
    metric varchar not null
)
