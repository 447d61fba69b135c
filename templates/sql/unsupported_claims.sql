-- Claims that cite no valid chunk, with the answer they are from.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.unsupported_claims` AS
SELECT
  answers.question_id,
  answers.turn_index,
  answers.answer_id,
  answers.answered_at,
  answers.question,
  answers.answer_text,
  claims.claim_index,
  claims.claim_text,
  claims.claim_start,
  claims.claim_end
FROM `${DATASET}.claim_supports_latest` AS claims
JOIN `${DATASET}.answers_latest` AS answers
  ON answers.answer_id = claims.answer_id
WHERE claims.chunk_index IS NULL;
