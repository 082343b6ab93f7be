/*
 * test_cupti.c: src/lab/record/cupti.h agrees with NVIDIA's headers of CUPTI, if a toolkit is installed.
 *
 * The offset of every member, and the number and the parameters of every function, are compared by the compiler. Other
 * versions of CUPTI have longer records with the same beginning.
 */
#include "lab/record/cupti.h"
#include "test.h"

#ifdef GRIDSMITH_CUPTI

#    include <cuda.h>
#    include <cuda_runtime_api.h>
#    include <cupti.h>
#    include <string.h>

#    define SAME(ours, our_member, theirs, their_member)                                                               \
        _Static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member) &&                                 \
                           sizeof(((ours *)0)->our_member) == sizeof(((theirs *)0)->their_member),                     \
                       #theirs "." #their_member)
/* Where ours is an array of what they name one by one. */
#    define STARTS(ours, our_member, theirs, their_member)                                                             \
        _Static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member), #theirs "." #their_member)

#    define KERNEL(theirs)                                                                                             \
        SAME(cupti_kernel, kind, theirs, kind);                                                                        \
        SAME(cupti_kernel, registers, theirs, registersPerThread);                                                     \
        SAME(cupti_kernel, start, theirs, start);                                                                      \
        SAME(cupti_kernel, end, theirs, end);                                                                          \
        SAME(cupti_kernel, device, theirs, deviceId);                                                                  \
        SAME(cupti_kernel, context, theirs, contextId);                                                                \
        SAME(cupti_kernel, stream, theirs, streamId);                                                                  \
        STARTS(cupti_kernel, grid, theirs, gridX);                                                                     \
        STARTS(cupti_kernel, grid[2], theirs, gridZ);                                                                  \
        STARTS(cupti_kernel, block, theirs, blockX);                                                                   \
        SAME(cupti_kernel, static_shared_bytes, theirs, staticSharedMemory);                                           \
        SAME(cupti_kernel, dynamic_shared_bytes, theirs, dynamicSharedMemory);                                         \
        SAME(cupti_kernel, local_bytes, theirs, localMemoryPerThread);                                                 \
        SAME(cupti_kernel, correlation, theirs, correlationId);                                                        \
        SAME(cupti_kernel, name, theirs, name);                                                                        \
        SAME(cupti_kernel, launch_type, theirs, launchType);                                                           \
        SAME(cupti_kernel, has_carveout, theirs, isSharedMemoryCarveoutRequested);                                     \
        SAME(cupti_kernel, carveout_percent, theirs, sharedMemoryCarveoutRequested);                                   \
        SAME(cupti_kernel, shared_executed_bytes, theirs, sharedMemoryExecuted);                                       \
        SAME(cupti_kernel, graph_node, theirs, graphNodeId);                                                           \
        SAME(cupti_kernel, graph, theirs, graphId);                                                                    \
        STARTS(cupti_kernel, cluster, theirs, clusterX);                                                               \
        STARTS(cupti_kernel, cluster[2], theirs, clusterZ);                                                            \
        SAME(cupti_kernel, local_total_2, theirs, localMemoryTotal_v2);                                                \
        _Static_assert(sizeof(cupti_kernel) <= sizeof(theirs), #theirs)
KERNEL(CUpti_ActivityKernel8);
KERNEL(CUpti_ActivityKernel9);
#    if CUPTI_API_VERSION >= 130000
KERNEL(CUpti_ActivityKernel10);
#    endif

#    define COPY(theirs)                                                                                               \
        SAME(cupti_memcpy, kind, theirs, kind);                                                                        \
        SAME(cupti_memcpy, copy_kind, theirs, copyKind);                                                               \
        SAME(cupti_memcpy, bytes, theirs, bytes);                                                                      \
        SAME(cupti_memcpy, start, theirs, start);                                                                      \
        SAME(cupti_memcpy, end, theirs, end);                                                                          \
        SAME(cupti_memcpy, device, theirs, deviceId);                                                                  \
        SAME(cupti_memcpy, context, theirs, contextId);                                                                \
        SAME(cupti_memcpy, stream, theirs, streamId);                                                                  \
        SAME(cupti_memcpy, correlation, theirs, correlationId);                                                        \
        SAME(cupti_memcpy, graph_node, theirs, graphNodeId);                                                           \
        SAME(cupti_memcpy, graph, theirs, graphId)
COPY(CUpti_ActivityMemcpy5);
#    if CUPTI_API_VERSION >= 130000
COPY(CUpti_ActivityMemcpy6);
#    endif

SAME(cupti_memcpy_peer, copy_kind, CUpti_ActivityMemcpyPtoP4, copyKind);
SAME(cupti_memcpy_peer, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
SAME(cupti_memcpy_peer, end, CUpti_ActivityMemcpyPtoP4, end);
SAME(cupti_memcpy_peer, stream, CUpti_ActivityMemcpyPtoP4, streamId);
SAME(cupti_memcpy_peer, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
SAME(cupti_memcpy_peer, graph_node, CUpti_ActivityMemcpyPtoP4, graphNodeId);
SAME(cupti_memcpy_peer, graph, CUpti_ActivityMemcpyPtoP4, graphId);

SAME(cupti_memset, bytes, CUpti_ActivityMemset4, bytes);
SAME(cupti_memset, start, CUpti_ActivityMemset4, start);
SAME(cupti_memset, end, CUpti_ActivityMemset4, end);
SAME(cupti_memset, device, CUpti_ActivityMemset4, deviceId);
SAME(cupti_memset, context, CUpti_ActivityMemset4, contextId);
SAME(cupti_memset, stream, CUpti_ActivityMemset4, streamId);
SAME(cupti_memset, correlation, CUpti_ActivityMemset4, correlationId);
SAME(cupti_memset, graph_node, CUpti_ActivityMemset4, graphNodeId);
SAME(cupti_memset, graph, CUpti_ActivityMemset4, graphId);

SAME(cupti_context, context, CUpti_ActivityContext3, contextId);
SAME(cupti_context, device, CUpti_ActivityContext3, deviceId);
SAME(cupti_context, null_stream, CUpti_ActivityContext3, nullStreamId);
SAME(cupti_context, parent, CUpti_ActivityContext3, parentContextId);
SAME(cupti_context, is_green, CUpti_ActivityContext3, isGreenContext);
SAME(cupti_context, sms, CUpti_ActivityContext3, numMultiprocessors);

SAME(cupti_device, sms, CUpti_ActivityDevice5, numMultiprocessors);
SAME(cupti_device, id, CUpti_ActivityDevice5, id);
SAME(cupti_device, name, CUpti_ActivityDevice5, name);

SAME(cupti_call, site, CUpti_CallbackData, callbackSite);
SAME(cupti_call, parameters, CUpti_CallbackData, functionParams);
SAME(cupti_call, result, CUpti_CallbackData, functionReturnValue);
SAME(cupti_call, context, CUpti_CallbackData, context);
SAME(cupti_call, correlation, CUpti_CallbackData, correlationId);
SAME(cupti_resource, descriptor, CUpti_ResourceData, resourceDescriptor);
SAME(cupti_graph, node, CUpti_GraphData, node);
SAME(cupti_graph, original_node, CUpti_GraphData, originalNode);
SAME(cupti_graph, exec, CUpti_GraphData, graphExec);

#    define EQUAL(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #    ours)
EQUAL(CUPTI_ZEROED, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
EQUAL(CUPTI_PINNED, CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED);
EQUAL(CUPTI_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
EQUAL(CUPTI_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
EQUAL(CUPTI_DEVICE, CUPTI_ACTIVITY_KIND_DEVICE);
EQUAL(CUPTI_CONTEXT, CUPTI_ACTIVITY_KIND_CONTEXT);
EQUAL(CUPTI_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
EQUAL(CUPTI_MEMCPY_PEER, CUPTI_ACTIVITY_KIND_MEMCPY2);
EQUAL(CUPTI_ENTER, CUPTI_API_ENTER);
EQUAL(CUPTI_EXIT, CUPTI_API_EXIT);
EQUAL(CUPTI_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
EQUAL(CUPTI_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
EQUAL(CUPTI_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
EQUAL(CUPTI_EXEC_DESTROYED, CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING);
EQUAL(CUPTI_NODE_CLONED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);

/* CUlaunchConfig and the runtime's: the recorder reads both alike. */
_Static_assert(offsetof(CUlaunchConfig, hStream) == 32 && offsetof(CUlaunchConfig, attrs) == 40 &&
                   offsetof(CUlaunchConfig, numAttrs) == 48 && offsetof(cudaLaunchConfig_t, stream) == 32 &&
                   offsetof(cudaLaunchConfig_t, attrs) == 40 && offsetof(cudaLaunchConfig_t, numAttrs) == 48 &&
                   sizeof(CUlaunchAttribute) == 72 && offsetof(CUlaunchAttribute, value) == 8 &&
                   CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION == 6,
               "attributes of a launch");

/* ---- functions ---- */

#    define NUMBER(call, function, number, thread, stream, other)                                                      \
        {#function, CUPTI_DRIVER_TRACE_CBID_##function, (number)},
#    define RUNTIME_NUMBER(call, function, number, thread, stream, other)                                              \
        {#function, CUPTI_RUNTIME_TRACE_CBID_##function, (number)},

TEST(functions_have_the_numbers_of_cupti) {
    static const struct {
        const char *function;
        unsigned theirs, ours;
    } numbers[] = {GS_DRIVER_CALLS(NUMBER) GS_RUNTIME_CALLS(RUNTIME_NUMBER)};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].theirs != numbers[i].ours)
            fail_msg("%s is %u, not %u", numbers[i].function, numbers[i].theirs, numbers[i].ours);
}

static int stream_of(const char *function, bool per_thread, uint32_t *id, int *other) {
    for (size_t i = 0; i < gs_call_count; i++)
        if (strcmp(gs_calls[i].symbol, function) == 0 && gs_calls[i].per_thread == per_thread) {
            *id = gs_calls[i].id;
            *other = gs_calls[i].other_at;
            return gs_calls[i].stream_at;
        }
    fail_msg("%s is not followed", function);
    return 0;
}

#    define AT(function)                                                                                               \
        { #function, offsetof(function##_params, hStream) }
#    define RUNTIME_AT(function)                                                                                       \
        { #function, offsetof(function##_params, stream) }

TEST(streams_are_where_cupti_has_them) {
    static const struct {
        const char *function;
        int at;
    } streams[] = {AT(cuLaunchKernel),
                   AT(cuLaunchCooperativeKernel),
                   AT(cuGraphLaunch),
                   AT(cuMemcpyAsync),
                   AT(cuMemcpyHtoDAsync_v2),
                   AT(cuMemcpyDtoHAsync_v2),
                   AT(cuMemcpyDtoDAsync_v2),
                   AT(cuMemcpyHtoAAsync_v2),
                   AT(cuMemcpyAtoHAsync_v2),
                   AT(cuMemcpy2DAsync_v2),
                   AT(cuMemcpy3DAsync_v2),
                   AT(cuMemcpyPeerAsync),
                   AT(cuMemcpy3DPeerAsync),
                   AT(cuMemsetD8Async),
                   AT(cuMemsetD16Async),
                   AT(cuMemsetD32Async),
                   AT(cuMemsetD2D8Async),
                   AT(cuMemsetD2D16Async),
                   AT(cuMemsetD2D32Async),
                   AT(cuEventRecord),
                   AT(cuEventRecordWithFlags),
                   AT(cuStreamWaitEvent),
                   AT(cuStreamBeginCapture),
                   AT(cuStreamBeginCapture_v2),
                   AT(cuStreamBeginCaptureToGraph),
                   AT(cuStreamEndCapture),
                   AT(cuStreamDestroy_v2),
                   {"cuStreamCreate", offsetof(cuStreamCreate_params, Flags)},
                   {"cuStreamCreateWithPriority", offsetof(cuStreamCreateWithPriority_params, flags)},
                   {"cuGreenCtxStreamCreate", offsetof(cuGreenCtxStreamCreate_params, flags)},
                   RUNTIME_AT(cudaLaunchKernel_v7000),
                   RUNTIME_AT(cudaLaunchCooperativeKernel_v9000),
                   RUNTIME_AT(cudaGraphLaunch_v10000),
                   RUNTIME_AT(cudaMemcpyAsync_v3020),
                   RUNTIME_AT(cudaMemcpy2DAsync_v3020),
                   RUNTIME_AT(cudaMemsetAsync_v3020),
                   RUNTIME_AT(cudaEventRecord_v3020),
                   RUNTIME_AT(cudaEventRecordWithFlags_v11010),
                   RUNTIME_AT(cudaStreamWaitEvent_v3020),
                   RUNTIME_AT(cudaMemcpyToArrayAsync_v3020),
                   RUNTIME_AT(cudaMemcpyFromArrayAsync_v3020),
                   RUNTIME_AT(cudaMemcpy2DToArrayAsync_v3020),
                   RUNTIME_AT(cudaMemcpy2DFromArrayAsync_v3020),
                   RUNTIME_AT(cudaMemcpyToSymbolAsync_v3020),
                   RUNTIME_AT(cudaMemcpyFromSymbolAsync_v3020),
                   RUNTIME_AT(cudaMemcpy3DAsync_v3020),
                   RUNTIME_AT(cudaMemcpyPeerAsync_v4000),
                   RUNTIME_AT(cudaMemcpy3DPeerAsync_v4000),
                   RUNTIME_AT(cudaMemset2DAsync_v3020),
                   RUNTIME_AT(cudaMemset3DAsync_v3020),
                   RUNTIME_AT(cudaStreamDestroy_v5050),
                   RUNTIME_AT(cudaStreamBeginCapture_v10000),
                   RUNTIME_AT(cudaStreamEndCapture_v10000),
                   RUNTIME_AT(cudaStreamBeginCaptureToGraph_v12030)};
    uint32_t id;
    int other;
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++)
        if (stream_of(streams[i].function, false, &id, &other) != streams[i].at)
            fail_msg("the stream of %s is at %d", streams[i].function, streams[i].at);
}

TEST(other_parameters_are_where_cupti_has_them) {
    static const struct {
        const char *function;
        int at;
    } others[] = {{"cuGraphLaunch", offsetof(cuGraphLaunch_params, hGraph)},
                  {"cuEventRecord", offsetof(cuEventRecord_params, hEvent)},
                  {"cuEventRecordWithFlags", offsetof(cuEventRecordWithFlags_params, hEvent)},
                  {"cuStreamWaitEvent", offsetof(cuStreamWaitEvent_params, hEvent)},
                  {"cuEventDestroy_v2", offsetof(cuEventDestroy_v2_params, hEvent)},
                  {"cuStreamCreateWithPriority", offsetof(cuStreamCreateWithPriority_params, priority)},
                  {"cuGreenCtxStreamCreate", offsetof(cuGreenCtxStreamCreate_params, priority)},
                  {"cuGraphInstantiate_v2", offsetof(cuGraphInstantiate_v2_params, hGraph)},
                  {"cuGraphInstantiateWithFlags", offsetof(cuGraphInstantiateWithFlags_params, hGraph)},
                  {"cuGraphInstantiateWithParams", offsetof(cuGraphInstantiateWithParams_params, hGraph)}};
    uint32_t id;
    int other;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        stream_of(others[i].function, false, &id, &other);
        if (other != others[i].at)
            fail_msg("the parameter of %s is at %d, not %d", others[i].function, others[i].at, other);
    }
}

TEST(functions_of_threads_have_the_numbers_of_cupti) {
    static const struct {
        const char *function;
        unsigned theirs;
    } numbers[] = {{"cuLaunchKernel", CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz},
                   {"cuLaunchKernelEx", CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz},
                   {"cuLaunchCooperativeKernel", CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz},
                   {"cuGraphLaunch", CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz},
                   {"cuMemcpyAsync", CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz},
                   {"cuMemcpyHtoDAsync_v2", CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz},
                   {"cuMemcpyDtoHAsync_v2", CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz},
                   {"cuMemcpyDtoDAsync_v2", CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz},
                   {"cuMemcpyHtoD_v2", CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2_ptds},
                   {"cuMemcpyDtoH_v2", CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds},
                   {"cuMemsetD8Async", CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async_ptsz},
                   {"cuMemsetD8_v2", CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2_ptds},
                   {"cuEventRecord", CUPTI_DRIVER_TRACE_CBID_cuEventRecord_ptsz},
                   {"cuStreamWaitEvent", CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent_ptsz},
                   {"cuStreamBeginCapture_v2", CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz},
                   {"cuStreamEndCapture", CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture_ptsz}};
    uint32_t id;
    int other;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        stream_of(numbers[i].function, true, &id, &other);
        if (id != numbers[i].theirs)
            fail_msg("%s is %u, not %u", numbers[i].function, numbers[i].theirs, id);
    }
}

#else

TEST(the_headers_of_cupti_are_not_installed) {
    skip();
}

#endif

TEST_MAIN(NULL, NULL)
