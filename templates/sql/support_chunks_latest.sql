-- The support chunks of answers_latest, each once. Rows that another run wrote of the same response say the same:
-- those of the run that the answer's row is from come first.
-- ${DATASET} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${DATASET}.support_chunks_latest` AS
SELECT chunks.*
FROM `${DATASET}.support_chunks` AS chunks
JOIN `${DATASET}.answers_latest` AS answers
  ON answers.answer_id = chunks.answer_id AND answers.answered_at = chunks.answered_at
WHERE TRUE
QUALIFY ROW_NUMBER() OVER (
  PARTITION BY chunks.answer_id, chunks.chunk_index
  ORDER BY IF(chunks.run_id = answers.run_id, 0, 1), chunks.run_id
) = 1;
