-- Failures by the day (UTC) of their newest row, by stage and code.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.failures_by_day` AS
SELECT
  DATE(failed_at) AS day,
  stage,
  code,
  COUNT(*) AS failures,
  COUNTIF(retryable) AS retryable
FROM `${DATASET}.failures_latest`
GROUP BY day, stage, code
ORDER BY day, failures DESC, stage, code;
