/*
 * unit_samples.cu: how much of the GPU's units is in use over time, whatever runs on it: PM sampling of CUPTI.
 *
 *   nvcc -O2 -o unit_samples unit_samples.cu -lcupti -lcuda
 *   ./unit_samples EVERY_US > samples.csv
 *
 * A line "NAME MILLISECONDS" on standard input takes samples for so long, and then prints them: NAME, the begin of a
 * sample in us, and percents of the peak of some units. Samples are read only when sampling has ended: reading is
 * slower than sampling, and then the buffer of the GPU overflows (CUPTI_ERROR_OUT_OF_MEMORY). A unit has several names
 * on different GPUs: the first that this GPU samples in one pass with the others is used, and an unknown one is left
 * out. It needs the right to read counters (root, or NVreg_RestrictProfilingToAdminUsers=0).
 */
#include <cuda.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

static const std::vector<std::vector<std::string>> units = {
    {"issue", "sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed",
     "sm__inst_issued.avg.pct_of_peak_sustained_elapsed", "sm__inst_executed.avg.pct_of_peak_sustained_elapsed"},
    {"tensor", "sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed",
     "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
     "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed",
     "sm__inst_executed_pipe_tensor_realtime.avg.pct_of_peak_sustained_elapsed"},
    {"fma", "sm__pipe_fma_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed",
     "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed",
     "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed"},
    {"l2", "lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "lts__throughput.avg.pct_of_peak_sustained_elapsed",
     "lts__average_t_sector.pct"},
    {"dram", "dramc__throughput.avg.pct_of_peak_sustained_elapsed",
     "dram__throughput.avg.pct_of_peak_sustained_elapsed", "dram__bytes.avg.pct_of_peak_sustained_elapsed"}};

static void expect(int code, const char *what) {
    if (code == 0)
        return;
    fprintf(stderr, "unit_samples: %s failed: %d\n", what, code);
    exit(3);
}

/* A host object with these metrics. NULL: this GPU does not sample them in one pass. */
static CUpti_Profiler_Host_Object *configure(const char *chip, const std::vector<uint8_t> &available,
                                             std::vector<const char *> &names, std::vector<uint8_t> &image) {
    CUpti_Profiler_Host_Initialize_Params open = {CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE};
    open.profilerType = CUPTI_PROFILER_TYPE_PM_SAMPLING;
    open.pChipName = chip;
    open.pCounterAvailabilityImage = available.data();
    expect(cuptiProfilerHostInitialize(&open), "opening the profiler");
    CUpti_Profiler_Host_ConfigAddMetrics_Params add = {CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE};
    add.pHostObject = open.pHostObject;
    add.ppMetricNames = names.data();
    add.numMetrics = names.size();
    CUpti_Profiler_Host_GetConfigImageSize_Params size = {CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE};
    size.pHostObject = open.pHostObject;
    if (cuptiProfilerHostConfigAddMetrics(&add) || cuptiProfilerHostGetConfigImageSize(&size))
        return NULL;
    image.resize(size.configImageSize);
    CUpti_Profiler_Host_GetConfigImage_Params get = {CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE};
    get.pHostObject = open.pHostObject;
    get.configImageSize = image.size();
    get.pConfigImage = image.data();
    CUpti_Profiler_Host_GetNumOfPasses_Params passes = {CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE};
    passes.configImageSize = image.size();
    passes.pConfigImage = image.data();
    bool is_one =
        !cuptiProfilerHostGetConfigImage(&get) && !cuptiProfilerHostGetNumOfPasses(&passes) && passes.numOfPasses == 1;
    return is_one ? open.pHostObject : NULL;
}

static std::vector<uint8_t> read_available(size_t device) {
    CUpti_PmSampling_GetCounterAvailability_Params ask = {CUpti_PmSampling_GetCounterAvailability_Params_STRUCT_SIZE};
    ask.deviceIndex = device;
    expect(cuptiPmSamplingGetCounterAvailability(&ask), "asking which counters there are");
    std::vector<uint8_t> image(ask.counterAvailabilityImageSize);
    ask.pCounterAvailabilityImage = image.data();
    expect(cuptiPmSamplingGetCounterAvailability(&ask), "asking which counters there are");
    return image;
}

struct sampler {
    CUpti_PmSampling_Object *sampling;
    CUpti_Profiler_Host_Object *host;
    std::vector<const char *> names;
    std::vector<uint8_t> image;
    uint64_t first_ns = 0;
    const char *label = "";

    void clear() {
        CUpti_PmSampling_CounterDataImage_Initialize_Params made = {
            CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE};
        made.pPmSamplingObject = sampling;
        made.counterDataSize = image.size();
        made.pCounterData = image.data();
        expect(cuptiPmSamplingCounterDataImageInitialize(&made), "preparing samples");
    }

    void print_one(size_t index) {
        std::vector<double> values(names.size());
        CUpti_PmSampling_CounterData_GetSampleInfo_Params when = {
            CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE};
        when.pPmSamplingObject = sampling;
        when.pCounterDataImage = image.data();
        when.counterDataImageSize = image.size();
        when.sampleIndex = index;
        CUpti_Profiler_Host_EvaluateToGpuValues_Params ask = {
            CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE};
        ask.pHostObject = host;
        ask.pCounterDataImage = image.data();
        ask.counterDataImageSize = image.size();
        ask.rangeIndex = index;
        ask.ppMetricNames = names.data();
        ask.numMetrics = names.size();
        ask.pMetricValues = values.data();
        if (cuptiPmSamplingCounterDataGetSampleInfo(&when) || cuptiProfilerHostEvaluateToGpuValues(&ask))
            return;
        first_ns = first_ns ? first_ns : when.startTimestamp;
        printf("%s,%.1f", label, (double)(when.startTimestamp - first_ns) / 1000);
        for (double value : values)
            printf(",%.1f", value);
        printf("\n");
    }

    /* Prints all samples since the last start. */
    void print_all() {
        for (bool is_over = false; !is_over;) {
            CUpti_PmSampling_DecodeData_Params decode = {CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE};
            decode.pPmSamplingObject = sampling;
            decode.pCounterDataImage = image.data();
            decode.counterDataImageSize = image.size();
            int code = cuptiPmSamplingDecodeData(&decode);
            CUpti_PmSampling_GetCounterDataInfo_Params count = {CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE};
            count.pCounterDataImage = image.data();
            count.counterDataImageSize = image.size();
            expect(cuptiPmSamplingGetCounterDataInfo(&count), "counting samples");
            fprintf(stderr, "%s: decode %d, overflow %d, stop reason %d, %zu samples\n", label, code,
                    (int)decode.overflow, (int)decode.decodeStopReason, (size_t)count.numCompletedSamples);
            for (size_t i = 0; i < count.numCompletedSamples; i++)
                print_one(i);
            is_over = code || decode.decodeStopReason != CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL;
            clear();
        }
        fflush(stdout);
    }
};

static void open_sampling(struct sampler *sampler, std::vector<uint8_t> &config, uint64_t every_ns) {
    enum { SAMPLES = 20000, BUFFER = 512 << 20 };
    CUpti_PmSampling_Enable_Params enable = {CUpti_PmSampling_Enable_Params_STRUCT_SIZE};
    expect(cuptiPmSamplingEnable(&enable), "enabling samples");
    sampler->sampling = enable.pPmSamplingObject;
    CUpti_PmSampling_SetConfig_Params set = {CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE};
    set.pPmSamplingObject = sampler->sampling;
    set.configSize = config.size();
    set.pConfig = config.data();
    set.hardwareBufferSize = BUFFER;
    set.samplingInterval = every_ns;
    set.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL;
    set.hwBufferAppendMode = CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST;
    if (cuptiPmSamplingSetConfig(&set)) { /* by clocks, where the GPU cannot do it by time */
        set.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL;
        set.samplingInterval = every_ns * 16 / 10;
        expect(cuptiPmSamplingSetConfig(&set), "choosing the counters");
    }
    CUpti_PmSampling_GetCounterDataSize_Params size = {CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE};
    size.pPmSamplingObject = sampler->sampling;
    size.pMetricNames = sampler->names.data();
    size.numMetrics = sampler->names.size();
    size.maxSamples = SAMPLES;
    expect(cuptiPmSamplingGetCounterDataSize(&size), "sizing samples");
    sampler->image.resize(size.counterDataSize);
    sampler->clear();
}

int main(int argc, char **argv) {
    CUdevice device;
    CUcontext context;
    char line[200], label[100];
    int ms;
    if (argc != 2) {
        fprintf(stderr, "usage: unit_samples EVERY_US\n");
        return 2;
    }
    expect(cuInit(0), "starting CUDA");
    expect(cuDeviceGet(&device, 0), "finding the GPU");
    expect(cuDevicePrimaryCtxRetain(&context, device), "opening the GPU");
    CUpti_Profiler_Initialize_Params init = {CUpti_Profiler_Initialize_Params_STRUCT_SIZE};
    expect(cuptiProfilerInitialize(&init), "starting CUPTI");
    CUpti_Device_GetChipName_Params chip = {CUpti_Device_GetChipName_Params_STRUCT_SIZE};
    expect(cuptiDeviceGetChipName(&chip), "naming the GPU");
    std::vector<uint8_t> available = read_available(0), config;
    struct sampler sampler;
    printf("way,us");
    for (const auto &unit : units)
        for (size_t i = 1; i < unit.size(); i++) {
            sampler.names.push_back(unit[i].c_str());
            if (configure(chip.pChipName, available, sampler.names, config)) {
                printf(",%s", unit[0].c_str());
                fprintf(stderr, "%s: %s\n", unit[0].c_str(), unit[i].c_str());
                break;
            }
            sampler.names.pop_back();
        }
    printf("\n");
    sampler.host = configure(chip.pChipName, available, sampler.names, config);
    if (sampler.names.empty() || !sampler.host) {
        fprintf(stderr, "unit_samples: this GPU samples none of the units\n");
        return 3;
    }
    open_sampling(&sampler, config, (uint64_t)atoi(argv[1]) * 1000);
    fprintf(stderr, "ready\n");
    while (fgets(line, sizeof line, stdin) && sscanf(line, "%99s %d", label, &ms) == 2) {
        CUpti_PmSampling_Start_Params start = {CUpti_PmSampling_Start_Params_STRUCT_SIZE};
        CUpti_PmSampling_Stop_Params stop = {CUpti_PmSampling_Stop_Params_STRUCT_SIZE};
        struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
        start.pPmSamplingObject = stop.pPmSamplingObject = sampler.sampling;
        sampler.label = label;
        sampler.first_ns = 0;
        expect(cuptiPmSamplingStart(&start), "starting samples");
        nanosleep(&pause, NULL);
        expect(cuptiPmSamplingStop(&stop), "ending samples");
        sampler.print_all();
    }
    return fflush(stdout) ? 4 : 0;
}
