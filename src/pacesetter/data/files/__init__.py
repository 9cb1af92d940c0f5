"""Files as sources: csv and parquet; wide, long, or a folder with one file per symbol."""

from pacesetter.data.files.kinds import file_source
from pacesetter.data.files.parquet import ParquetFiles
from pacesetter.data.files.text import CsvFiles

__all__ = ["CsvFiles", "ParquetFiles", "file_source"]
