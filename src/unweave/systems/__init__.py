"""The systems, one file per paper. `unweave.core.system.SYSTEMS` finds them by walking this folder."""
