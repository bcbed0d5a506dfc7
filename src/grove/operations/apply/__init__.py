"""Apply manifests: read them, merge them with what is stored, explain rejections."""
