-- What is still to be made good: for each question the newest failure, unless the turn that failed was answered
-- later; for each answer that could not be checked the newest, unless its turn was checked later.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.failures_open` AS
SELECT failures.*
FROM `${DATASET}.failures_latest` AS failures
LEFT JOIN (
  SELECT question_id, turn_index, MAX(answered_at) AS answered_at
  FROM `${DATASET}.answers`
  GROUP BY question_id, turn_index
) AS answered
  ON answered.question_id = failures.question_id AND answered.turn_index = failures.turn_index
LEFT JOIN (
  SELECT question_id, turn_index, MAX(checked_at) AS checked_at
  FROM `${DATASET}.grounding_checks`
  GROUP BY question_id, turn_index
) AS checked
  ON checked.question_id = failures.question_id AND checked.turn_index = failures.turn_index
WHERE IF(failures.stage = 'check', checked.checked_at, answered.answered_at) IS NULL
  OR IF(failures.stage = 'check', checked.checked_at, answered.answered_at) < failures.failed_at
QUALIFY ROW_NUMBER() OVER (
  PARTITION BY
    failures.question_id,
    failures.turn_index,
    IF(failures.stage = 'check', failures.failure_id, '')
  ORDER BY failures.failed_at DESC, failures.failure_id
) = 1;
