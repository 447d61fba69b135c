-- Which documents claims cite, the most cited first: citations counts pairs of a claim and a chunk. A document is
-- known by its id in Vertex AI Search, else by its address; links that Google Search gives differ every time.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.cited_documents` AS
SELECT
  COALESCE(chunks.document_id, chunks.uri) AS document,
  MAX(chunks.title) AS title,
  MAX(chunks.domain) AS domain,
  COUNT(*) AS citations,
  COUNT(DISTINCT claims.answer_id) AS answers,
  AVG(claims.support_score) AS mean_support_score
FROM `${DATASET}.claim_supports_latest` AS claims
JOIN `${DATASET}.support_chunks_latest` AS chunks
  ON chunks.answer_id = claims.answer_id AND chunks.chunk_index = claims.chunk_index
WHERE COALESCE(chunks.document_id, chunks.uri) IS NOT NULL
GROUP BY COALESCE(chunks.document_id, chunks.uri)
ORDER BY citations DESC, document;
