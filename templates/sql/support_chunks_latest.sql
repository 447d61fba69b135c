-- The support chunks of answers_latest, each once.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.support_chunks_latest` AS
SELECT chunks.*
FROM `${DATASET}.support_chunks` AS chunks
JOIN `${DATASET}.answers_latest` AS answers
  ON answers.answer_id = chunks.answer_id AND answers.run_id = chunks.run_id
WHERE TRUE
QUALIFY ROW_NUMBER() OVER (PARTITION BY chunks.answer_id, chunks.chunk_index ORDER BY chunks.run_id) = 1;
