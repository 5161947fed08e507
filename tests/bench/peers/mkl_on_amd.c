// Preloaded, it makes Intel's MKL take its AVX2 kernels on AMD processors too.
int mkl_serv_intel_cpu_true(void) { return 1; }
