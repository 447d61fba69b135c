-- Which domains claims cite, the most cited first: citations counts pairs of a claim and a chunk. The domain is
-- null where the service named none.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.cited_domains` AS
SELECT
  chunks.domain,
  COUNT(*) AS citations,
  COUNT(DISTINCT claims.answer_id) AS answers,
  AVG(claims.support_score) AS mean_support_score
FROM `${DATASET}.claim_supports_latest` AS claims
JOIN `${DATASET}.support_chunks_latest` AS chunks
  ON chunks.answer_id = claims.answer_id AND chunks.chunk_index = claims.chunk_index
GROUP BY chunks.domain
ORDER BY citations DESC, chunks.domain;
