-- Every failure once: of the rows that bear its id, the newest.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.failures_latest` AS
SELECT *
FROM `${DATASET}.failures`
WHERE TRUE
QUALIFY ROW_NUMBER() OVER (PARTITION BY failure_id ORDER BY failed_at DESC, run_id) = 1;
