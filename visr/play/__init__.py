"""From a task to behaviour: policies, stepwise sessions, pictures, MP4 files, ONNX files."""
