"""Sets what running models needs of the whole process. Composition roots call it; nothing that they open does."""

import os

from services.inference.glibc_memory import keep_freed_memory


def set_process_options() -> None:
    """Keeps freed memory in the process, and the tokenizers library on the calling thread."""
    keep_freed_memory()
    # Worker threads already use all cores; the library's own pool would compete with them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
