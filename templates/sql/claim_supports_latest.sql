-- The claims of answers_latest with the chunks they cite, each pair once. Rows that another run wrote of the same
-- response say the same: those of the run that the answer's row is from come first.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.claim_supports_latest` AS
SELECT claims.*
FROM `${DATASET}.claim_supports` AS claims
JOIN `${DATASET}.answers_latest` AS answers
  ON answers.answer_id = claims.answer_id AND answers.answered_at = claims.answered_at
WHERE TRUE
QUALIFY ROW_NUMBER() OVER (
  PARTITION BY claims.answer_id, claims.claim_index, claims.chunk_index
  ORDER BY IF(claims.run_id = answers.run_id, 0, 1), claims.run_id
) = 1;
