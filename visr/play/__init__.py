"""A task becomes behaviour: policies, sessions, pictures, videos, ONNX files."""
