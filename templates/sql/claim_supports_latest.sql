-- The claims of answers_latest with the chunks they cite, each pair once.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.claim_supports_latest` AS
SELECT claims.*
FROM `${DATASET}.claim_supports` AS claims
JOIN `${DATASET}.answers_latest` AS answers
  ON answers.answer_id = claims.answer_id AND answers.run_id = claims.run_id
WHERE TRUE
QUALIFY ROW_NUMBER() OVER (
  PARTITION BY claims.answer_id, claims.claim_index, claims.chunk_index ORDER BY claims.run_id
) = 1;
