"""Where the arithmetic of an estimator runs, beside the threads of this machine: one folder per backend."""
