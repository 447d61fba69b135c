-- What each threshold of dynamic retrieval would do: the share of prompts whose prediction reaches it, which are
-- those that would be grounded. Of all prompts for which the service told its prediction.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.retrieval_thresholds` AS
WITH predicted AS (
  SELECT answers.question_id, answers.turn_index, MAX(one.prediction) AS prediction
  FROM `${DATASET}.answers_latest` AS answers
  CROSS JOIN UNNEST(answers.retrieval) AS one
  WHERE one.prediction IS NOT NULL
  GROUP BY answers.question_id, answers.turn_index
)
SELECT
  tenths / 10 AS threshold,
  COUNT(*) AS prompts,
  SUM(IF(predicted.prediction >= tenths / 10, 1, 0)) AS grounded,
  AVG(IF(predicted.prediction >= tenths / 10, 1, 0)) AS grounded_share
FROM predicted
CROSS JOIN UNNEST([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) AS tenths
GROUP BY tenths
ORDER BY threshold;
