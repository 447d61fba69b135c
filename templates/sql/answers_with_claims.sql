-- Answers beside their claims: a row per claim, one with nulls for an answer without claims. cited_chunks is how
-- many chunks the claim cites, chunk_uris their addresses in order, with a space between.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.answers_with_claims` AS
SELECT
  answers.question_id,
  answers.turn_index,
  answers.answer_id,
  answers.answered_at,
  answers.question,
  answers.answer_text,
  answers.grounding_score,
  answers.support_coverage,
  claims.claim_index,
  claims.claim_text,
  claims.claim_start,
  claims.claim_end,
  claims.support_score,
  claims.cited_chunks,
  claims.chunk_uris
FROM `${DATASET}.answers_latest` AS answers
LEFT JOIN (
  SELECT
    answer_id,
    claim_index,
    MAX(claim_text) AS claim_text,
    MAX(claim_start) AS claim_start,
    MAX(claim_end) AS claim_end,
    MAX(support_score) AS support_score,
    COUNT(chunk_index) AS cited_chunks,
    STRING_AGG(chunk_uri, ' ' ORDER BY chunk_index) AS chunk_uris
  FROM `${DATASET}.claim_supports_latest`
  GROUP BY answer_id, claim_index
) AS claims
  ON claims.answer_id = answers.answer_id;
