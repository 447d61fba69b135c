"""The pipeline's steps as a library: PTransforms that drop into any Beam pipeline."""
