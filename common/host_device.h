#pragma once

// KV_HOST_DEVICE marks a function that host code and kernels share.

#ifdef __CUDACC__
#define KV_HOST_DEVICE __host__ __device__
#else
#define KV_HOST_DEVICE
#endif
