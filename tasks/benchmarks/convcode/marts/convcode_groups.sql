-- One row per score of a turn, with the turn in the paper's count (0: the first answer).
select run_id, null as "level", 'turn' as axis, (turn - 1)::varchar as position, score from changed_scores
where turn > 0
