// Functions that the linker calls instead of the runtime's; each can be made to fail. A function
// that ends something ends it before it fails, as the real one does.

#include <cuda_runtime_api.h>

#include "programs/allocations.h"

// NOLINTBEGIN
extern "C" {

#define KV_FAILS(call, parameters, arguments, error) \
  cudaError_t __real_##call parameters;              \
  cudaError_t __wrap_##call parameters { return kv::fails_now() ? error : __real_##call arguments; }

KV_FAILS(cudaMalloc, (void** data, size_t bytes), (data, bytes), cudaErrorMemoryAllocation)
KV_FAILS(cudaMallocHost, (void** data, size_t bytes), (data, bytes), cudaErrorMemoryAllocation)
KV_FAILS(cudaMemcpyAsync,
         (void* to, const void* from, size_t n, cudaMemcpyKind kind, cudaStream_t s),
         (to, from, n, kind, s), cudaErrorUnknown)
KV_FAILS(cudaMemsetAsync, (void* to, int value, size_t n, cudaStream_t s), (to, value, n, s),
         cudaErrorUnknown)
KV_FAILS(cudaLaunchKernelExC, (const cudaLaunchConfig_t* config, const void* kernel, void** args),
         (config, kernel, args), cudaErrorLaunchOutOfResources)
KV_FAILS(cudaStreamBeginCapture, (cudaStream_t s, cudaStreamCaptureMode mode), (s, mode),
         cudaErrorUnknown)
KV_FAILS(cudaGraphInstantiate,
         (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
         (exec, graph, flags), cudaErrorMemoryAllocation)
KV_FAILS(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t s), (exec, s), cudaErrorUnknown)
KV_FAILS(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags),
         cudaErrorMemoryAllocation)
KV_FAILS(cudaEventRecord, (cudaEvent_t event, cudaStream_t s), (event, s), cudaErrorUnknown)
KV_FAILS(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t event, unsigned flags),
         (s, event, flags), cudaErrorUnknown)
KV_FAILS(cudaEventQuery, (cudaEvent_t event), (event), cudaErrorUnknown)
KV_FAILS(cudaEventElapsedTime, (float* ms, cudaEvent_t begin, cudaEvent_t end), (ms, begin, end),
         cudaErrorUnknown)
KV_FAILS(cudaFuncSetAttribute, (const void* kernel, cudaFuncAttribute what, int value),
         (kernel, what, value), cudaErrorUnknown)

cudaError_t __real_cudaStreamSynchronize(cudaStream_t s);
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t s) {
  const cudaError_t error = __real_cudaStreamSynchronize(s);
  return kv::fails_now() ? cudaErrorUnknown : error;
}
cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event) {
  const cudaError_t error = __real_cudaEventSynchronize(event);
  return kv::fails_now() ? cudaErrorUnknown : error;
}
cudaError_t __real_cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph);
cudaError_t __wrap_cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  const cudaError_t error = __real_cudaStreamEndCapture(s, graph);
  if (!kv::fails_now()) return error;
  if (error == cudaSuccess && *graph != nullptr) cudaGraphDestroy(*graph);
  *graph = nullptr;
  return cudaErrorStreamCaptureInvalidated;
}

}  // extern "C"
// NOLINTEND
