/* NVML's answers from a script: what script.py writes, one answer a line: TIME GPU QUESTION ANSWER.
   Structures are those of nvml.h; only what muster asks is here. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, TIMED_OUT = 10, LOST = 15 };
enum { HOST = -1, ENTRIES = 4096, TEXT = 256 };

static struct { double at; int gpu; char question[80], answer[TEXT]; } entries[ENTRIES];
static int count, told;
static double began;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void read_script(void) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    count = 0;
    while (file && count < ENTRIES && fgets(line, sizeof line, file)) {
        int used = 0;
        entries[count].answer[0] = 0;
        if (sscanf(line, "%lf %d %79s %n", &entries[count].at, &entries[count].gpu, entries[count].question, &used) < 3)
            continue;
        sscanf(line + used, "%255[^\n]", entries[count].answer);
        count++;
    }
    if (file) fclose(file);
    began = now();
}

static const char *find(int gpu, const char *question) {
    const char *found = NULL;
    for (int i = 0; i < count; i++)
        if (entries[i].gpu == gpu && entries[i].at <= now() - began && !strcmp(entries[i].question, question))
            found = entries[i].answer;
    return found;
}

/* The answer to a question, or the error in *error. */
static const char *ask(int gpu, const char *question, int *error) {
    int naming = !strcmp(question, "nvmlDeviceGetHandleByIndex_v2") || !strcmp(question, "nvmlDeviceGetIndex");
    const char *answer = find(gpu, question);
    *error = OK;
    if (!naming && find(gpu, "lost")) *error = LOST;
    else if (!answer) *error = NOT_SUPPORTED;
    else if (answer[0] == '!') *error = atoi(answer + 1);
    else if (!strcmp(answer, "hang")) for (;;) pause();
    return *error ? NULL : answer;
}

/* So many numbers of an answer. */
static int numbers(int gpu, const char *question, int wanted, long long *out) {
    int error;
    const char *answer = ask(gpu, question, &error);
    char *next = (char *)answer;
    for (int i = 0; !error && i < wanted; i++) {
        char *from = next;
        out[i] = strtoll(from, &next, 10);
        if (next == from) return INVALID;
    }
    return error;
}

static int text(int gpu, const char *question, char *out, unsigned size) {
    int error;
    const char *answer = ask(gpu, question, &error);
    if (!error) snprintf(out, size, "%s", answer);
    return error;
}

static int gpu_of(void *handle) { return (int)(long)handle - 1; }

int nvmlInitWithFlags(unsigned flags) { int e; read_script(); ask(HOST, "nvmlInitWithFlags", &e); return e; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int error) { return error == LOST ? "GPU is lost" : "fake error"; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(HOST, "nvmlSystemGetDriverVersion", out, size); }
int nvmlDeviceGetName(void *h, char *out, unsigned size) { return text(gpu_of(h), "nvmlDeviceGetName", out, size); }
int nvmlDeviceGetUUID(void *h, char *out, unsigned size) { return text(gpu_of(h), "nvmlDeviceGetUUID", out, size); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    int error;
    ask(index, "nvmlDeviceGetHandleByIndex_v2", &error);
    *handle = (void *)(long)(index + 1);
    return error;
}

#define HOST_NUMBER(name) \
    int name(unsigned *out) { long long v; int e = numbers(HOST, #name, 1, &v); if (!e) *out = v; return e; }
#define NUMBER(name, type) \
    int name(void *h, type *out) { long long v; int e = numbers(gpu_of(h), #name, 1, &v); if (!e) *out = v; return e; }
#define TWO(name) \
    int name(void *h, unsigned *a, unsigned *b) { \
        long long v[2]; int e = numbers(gpu_of(h), #name, 2, v); if (!e) *a = v[0], *b = v[1]; return e; }
#define FOR_ONE(name) \
    int name(void *h, unsigned what, unsigned *out) { \
        char q[80]; long long v; snprintf(q, sizeof q, #name ".%u", what); \
        int e = numbers(gpu_of(h), q, 1, &v); if (!e) *out = v; return e; }

HOST_NUMBER(nvmlSystemGetCudaDriverVersion)
HOST_NUMBER(nvmlDeviceGetCount_v2)
TWO(nvmlDeviceGetCudaComputeCapability)
TWO(nvmlDeviceGetEccMode)
TWO(nvmlDeviceGetMigMode)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, unsigned)
NUMBER(nvmlDeviceGetPersistenceMode, unsigned)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned)
NUMBER(nvmlDeviceGetIndex, unsigned)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long)
NUMBER(nvmlDeviceGetSupportedEventTypes, unsigned long long)
FOR_ONE(nvmlDeviceGetTemperature)
FOR_ONE(nvmlDeviceGetTemperatureThreshold)

struct pci { char legacy[16]; unsigned numbers[5]; char bus[32]; };

int nvmlDeviceGetPciInfo_v3(void *h, struct pci *out) {
    return text(gpu_of(h), "nvmlDeviceGetPciInfo_v3", out->bus, sizeof out->bus);
}

struct temperature { unsigned version, sensor; int degrees; };

int nvmlDeviceGetTemperatureV(void *h, struct temperature *out) {
    char question[80];
    long long v;
    snprintf(question, sizeof question, "nvmlDeviceGetTemperatureV.%u", out->sensor);
    int e = numbers(gpu_of(h), question, 1, &v);
    if (!e) out->degrees = v;
    return e;
}

int nvmlDeviceGetTotalEccErrors(void *h, unsigned type, unsigned counter, unsigned long long *out) {
    char question[80];
    long long v;
    snprintf(question, sizeof question, "nvmlDeviceGetTotalEccErrors.%u.%u", type, counter);
    int e = numbers(gpu_of(h), question, 1, &v);
    if (!e) *out = v;
    return e;
}

int nvmlDeviceGetRemappedRows(void *h, unsigned *a, unsigned *b, unsigned *c, unsigned *d) {
    long long v[4];
    int e = numbers(gpu_of(h), "nvmlDeviceGetRemappedRows", 4, v);
    if (!e) *a = v[0], *b = v[1], *c = v[2], *d = v[3];
    return e;
}

int nvmlDeviceGetRowRemapperHistogram(void *h, unsigned *out) {
    long long v[5];
    int e = numbers(gpu_of(h), "nvmlDeviceGetRowRemapperHistogram", 5, v);
    for (int i = 0; !e && i < 5; i++) out[i] = v[i];
    return e;
}

int nvmlDeviceGetRetiredPages(void *h, unsigned cause, unsigned *size, unsigned long long *pages) {
    long long v[2];
    int e = numbers(gpu_of(h), "nvmlDeviceGetRetiredPages", 2, v);
    unsigned room = *size;
    if (e) return e;
    *size = v[cause];
    for (unsigned i = 0; pages && i < *size && i < room; i++) pages[i] = 0x1000 * (i + 1);
    return *size > room ? TOO_SMALL : OK;
}

int nvmlDeviceGetNvLinkState(void *h, unsigned link, unsigned *out) {
    long long v[64];
    int e = numbers(gpu_of(h), "nvmlDeviceGetNvLinkState", link + 1, v);
    if (!e) *out = v[link];
    return e;
}

int nvmlDeviceGetNvLinkErrorCounter(void *h, unsigned link, unsigned counter, unsigned long long *out) {
    long long v[3];
    int e = numbers(gpu_of(h), "nvmlDeviceGetNvLinkErrorCounter", 3, v);
    if (!e) *out = link == 0 ? v[counter] : 0;
    return e;
}

struct field { unsigned id, scope; long long time, latency; int type, error; union { unsigned ui; double room; } value; };

int nvmlDeviceGetFieldValues(void *h, int n, struct field *out) {
    if (find(gpu_of(h), "lost")) return LOST;
    for (int i = 0; i < n; i++) {
        char question[80];
        long long v = 0;
        snprintf(question, sizeof question, "field.%u", out[i].id);
        out[i].error = numbers(gpu_of(h), question, 1, &v);
        out[i].value.ui = v;
    }
    return OK;
}

struct fabric { unsigned version; char uuid[16]; int status; unsigned clique, state, health; };

int nvmlDeviceGetGpuFabricInfoV(void *h, struct fabric *out) {
    long long v[3];
    int e = numbers(gpu_of(h), "nvmlDeviceGetGpuFabricInfoV", 3, v);
    if (!e) out->state = v[0], out->status = v[1], out->health = v[2];
    return e;
}

struct memory { unsigned version; unsigned long long total, reserved, unused, used; };

int nvmlDeviceGetMemoryInfo_v2(void *h, struct memory *out) {
    long long v[2];
    int e = numbers(gpu_of(h), "nvmlDeviceGetMemoryInfo_v2", 2, v);
    if (!e) out->used = v[0], out->total = v[1], out->unused = v[1] - v[0];
    return e;
}

struct process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };

int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *size, struct process *out) {
    int error;
    const char *answer = ask(gpu_of(h), "nvmlDeviceGetComputeRunningProcesses_v3", &error);
    unsigned found = 0, room = *size, pid;
    unsigned long long used;
    if (error) return error;
    for (int length; sscanf(answer, "%u %llu %n", &pid, &used, &length) == 2; answer += length, found++)
        if (out && found < room) out[found] = (struct process){pid, used, 0, 0};
    *size = found;
    return found > room ? TOO_SMALL : OK;
}

int nvmlEventSetCreate(void **set) { *set = &told; return OK; }
int nvmlEventSetFree(void *set) { return OK; }
int nvmlDeviceRegisterEvents(void *h, unsigned long long types, void *set) { return OK; }

struct event { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };

int nvmlEventSetWait_v2(void *set, struct event *out, unsigned milliseconds) {
    double deadline = now() + milliseconds / 1e3;
    do {
        int seen = 0;
        for (int i = 0; i < count; i++) {
            if (strcmp(entries[i].question, "event") || entries[i].at > now() - began || seen++ < told) continue;
            told++;
            out->device = (void *)(long)(entries[i].gpu + 1);
            sscanf(entries[i].answer, "%llu %llu", &out->type, &out->data);
            return OK;
        }
        usleep(2000);
    } while (now() < deadline);
    return TIMED_OUT;
}
