-- Every check once: all rows of its newest response, each once.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.grounding_checks_latest` AS
SELECT *
FROM `${DATASET}.grounding_checks`
WHERE TRUE
QUALIFY RANK() OVER (PARTITION BY check_id ORDER BY checked_at DESC, from_ledger, run_id) = 1
  AND ROW_NUMBER() OVER (PARTITION BY check_id, run_id, checked_at, claim_index ORDER BY from_ledger) = 1;
