"""Files made of finished runs: answers, tables, a benchmark's files, a Hugging Face dataset, logs of Inspect AI."""
