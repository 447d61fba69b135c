-- Every answer once: of the rows that bear its id, from a run that was repeated or a message that was delivered
-- again, the newest response; of the same response twice, the row of the run that asked for it.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.answers_latest` AS
SELECT *
FROM `${DATASET}.answers`
WHERE TRUE
QUALIFY ROW_NUMBER() OVER (PARTITION BY answer_id ORDER BY answered_at DESC, from_ledger, run_id) = 1;
