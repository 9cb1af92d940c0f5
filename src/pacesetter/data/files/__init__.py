"""Files as sources: csv and parquet; wide, long, or a folder with one file per symbol."""

from pacesetter.data.files.kinds import file_source

__all__ = ["file_source"]
