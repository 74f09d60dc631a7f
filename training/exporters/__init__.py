"""Writes a checkpoint in the forms that other programs load: transformers, CTranslate2, ONNX."""
