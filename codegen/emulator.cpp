// The emulator's worker process: reads launches from standard input, one a line, and answers each
// with a line of JSON.
//
//   emulator HEAP_FD HEAP_BYTES HEAP_ADDRESS MEMORY_LIMIT
//   launch library=PATH entry=NAME grid=X,Y,Z block=X,Y,Z shared=BYTES seed=N steps=N counting=0|1
//          timed=0|RATES record=0|1 parameters=HEX,HEX,... buffers=OFFSET:BYTES:INITIALISED,...
//          follow=none|STEP:PICK,...
//
// A kernel's library was compiled against emulator_device.h and finds emu_* and __tsan_* here (the
// program is linked with -rdynamic). Crashes end the process; whoever drives it starts another.
#include "emulator_launch.h"
#include <csignal>
#include <dlfcn.h>
#include <iostream>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __linux__
#include <link.h>
#include <sys/prctl.h>
#endif

typedef std::map<std::string, std::string> Fields;
static Fields fields_of(const std::string& line) {
  Fields fields;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) fields[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return fields;
}
static std::vector<std::string> split(const std::string& s, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(s);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}
static u64 number(const std::string& s) { return strtoull(s.c_str(), nullptr, 0); }
static EmuDim3 dim3_of(const std::string& s) {
  const auto p = split(s, ',');
  return p.size() == 3 ? EmuDim3{(u32)number(p[0]), (u32)number(p[1]), (u32)number(p[2])}
                       : EmuDim3{1, 1, 1};
}

// ---- libraries ----
struct Library {
  void* handle;
  u8* base;
};
static std::map<std::string, Library> libraries;
static Library* library_of(const std::string& path, const std::string& entry, std::string& error) {
  auto found = libraries.find(path);
  if (found != libraries.end()) return &found->second;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    error = dlerror();
    return nullptr;
  }
  Dl_info info{};
  dladdr(dlsym(handle, entry.c_str()), &info);
  return &(libraries[path] = {handle, (u8*)info.dli_fbase});
}
// where the library's constants lie
#ifdef __linux__
static int collect_segment(struct dl_phdr_info* info, size_t, void* base) {
  if ((u8*)info->dlpi_addr != base) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& p = info->dlpi_phdr[i];
    u8* first = (u8*)info->dlpi_addr + p.p_vaddr;
    if (p.p_type == PT_LOAD) constants.push_back({first, first + p.p_memsz});
  }
  return 1;
}
static void collect_segments(u8* base) { dl_iterate_phdr(collect_segment, base); }
#else
static void collect_segments(u8* base) { constants.push_back({base, base + (16 << 20)}); }
#endif

// ---- answers ----
static u8* code_base;
static long long code_offset(void* pc) { return pc ? (long long)((u8*)pc - code_base) : -1; }
static std::string reports_json() {
  std::string out;
  for (auto& r : reports)
    out += text(
               "%s{\"kind\":%s,\"pc\":%lld,\"other\":%lld,\"block\":[%u,%u,%u],"
               "\"thread\":[%u,%u,%u],\"step\":%llu,\"count\":%llu,",
               out.empty() ? "" : ",", quoted(r.kind).c_str(), code_offset(r.pc),
               code_offset(r.other_pc), r.block.x, r.block.y, r.block.z, r.thread.x, r.thread.y,
               r.thread.z, r.step, r.count) +
           "\"role\":" + quoted(r.role) + ",\"text\":" + quoted(r.text) + "}";
  return out;
}
static std::string tallies_json() {
  std::string out;
  for (auto& [key, t] : tallies)
    out += text("%s{\"kind\":%s,\"pc\":%lld,\"requests\":%llu,\"cost\":%llu,\"least\":%llu}",
                out.empty() ? "" : ",", quoted(key.kind).c_str(), code_offset(key.pc), t.requests,
                t.cost, t.least);
  return out;
}
static double cpu_seconds() {
  struct rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}
static void answer(double seconds) {
  std::string taken_text, written, told;
  for (auto& s : story) told += (told.empty() ? "" : ",") + quoted(s);
  if (recording)
    for (auto& d : taken)
      taken_text += text("%s[%llu,%u]", taken_text.empty() ? "" : ",", d.step, d.pick);
  for (auto& b : buffers)
    written +=
        text("%s%llu", written.empty() ? "" : ",", b.written ? (u64)(b.first - heap) : ~0ull);
  std::cout
      << "{\"reports\":[" << reports_json() << "],\"counts\":[" << tallies_json() << "],\"taken\":["
      << taken_text << "],\"story\":[" << told << "],\"written\":[" << written << "],"
      << text("\"steps\":%llu,\"switches\":%llu,\"wgmmas\":%llu,\"operations\":%llu,", run.steps,
              run.switches, run.wgmmas, run.ops)
      << text("\"seconds\":%.6f,", seconds)
      << text("\"cycles\":%.0f,\"tensor_cycles\":%.0f,\"bulk_loaded\":%llu,\"bulk_stored\":%llu}",
              last_cycle, tensor_busy, bulk_bytes[1], bulk_bytes[0])
      << std::endl;
}
static void refuse(const std::string& why) {
  std::cout << "{\"refused\":" << quoted(why) << "}" << std::endl;
}

// ---- requests ----
static void read_buffers(const std::string& list) {
  buffers.clear();
  for (auto& item : split(list, ',')) {
    const auto p = split(item, ':');
    Buffer b{heap + number(p[0]), number(p[1]), number(p[2]) != 0, false, {}};
    open_shadow(b.shadow, b.bytes);
    buffers.push_back(std::move(b));
  }
  std::sort(buffers.begin(), buffers.end(),
            [](const Buffer& a, const Buffer& b) { return a.first < b.first; });
}
static void read_mode(Fields& f) {
  counting = f["counting"] == "1";
  recording = f["record"] == "1";
  const auto t = split(f["timed"], ',');
  timed = t.size() == sizeof rates / sizeof(double);
  if (timed)
    for (size_t i = 0; i < t.size(); i++) ((double*)&rates)[i] = atof(t[i].c_str());
  replaying = f["follow"] != "none";
  given.clear();
  if (replaying)
    for (auto& item : split(f["follow"], ',')) {
      const auto p = split(item, ':');
      if (p.size() == 2) given.push_back({number(p[0]), (u32)number(p[1])});
    }
}
// The parameters as the driver takes them: an array of pointers to values, each 64-byte aligned.
struct Parameters {
  std::vector<std::unique_ptr<CUtensorMap[]>> values;
  std::vector<void*> pointers;
  std::vector<int> sizes;
};
static Parameters read_parameters(const std::string& list) {
  Parameters p;
  for (auto& hex : split(list, ',')) {
    const size_t bytes = hex.size() / 2;
    p.values.emplace_back(new CUtensorMap[bytes / sizeof(CUtensorMap) + 1]());
    u8* to = (u8*)p.values.back().get();
    for (size_t i = 0; i < bytes; i++)
      to[i] = (u8)strtoul(hex.substr(2 * i, 2).c_str(), nullptr, 16);
    p.pointers.push_back(to);
    p.sizes.push_back((int)bytes);
  }
  return p;
}
static std::string check_parameters(const Parameters& p, void (*describe)(int*)) {
  int sizes[257] = {};
  describe(sizes);
  if (sizes[0] != (int)p.sizes.size())
    return text("the kernel takes %d parameters, %zu were given", sizes[0], p.sizes.size());
  for (int i = 0; i < sizes[0]; i++)
    if (sizes[i + 1] != p.sizes[i])
      return text("parameter %d has %d bytes, %d were given", i, sizes[i + 1], p.sizes[i]);
  return "";
}
static void serve_launch(Fields f) {
  std::string error;
  Library* library = library_of(f["library"], "emu_entry_" + f["entry"], error);
  if (!library) {
    refuse(error);
    return;
  }
  auto entry = (void (*)(void**))dlsym(library->handle, ("emu_entry_" + f["entry"]).c_str());
  auto describe = (void (*)(int*))dlsym(library->handle, ("emu_sizes_" + f["entry"]).c_str());
  if (!entry || !describe) {
    refuse("no kernel " + f["entry"] + " in " + f["library"]);
    return;
  }
  Parameters parameters = read_parameters(f["parameters"]);
  if (auto fault = check_parameters(parameters, describe); !fault.empty()) {
    refuse(fault);
    return;
  }
  const double start = cpu_seconds();
  reset_launch();
  code_base = library->base;
  constants.clear();
  collect_segments(library->base);
  constants.push_back({(u8*)parameters.pointers.data(),
                       (u8*)(parameters.pointers.data() + parameters.pointers.size())});
  for (size_t i = 0; i < parameters.sizes.size(); i++)
    constants.push_back(
        {(u8*)parameters.pointers[i], (u8*)parameters.pointers[i] + parameters.sizes[i]});
  read_mode(f);
  read_buffers(f["buffers"]);
  run.entry = entry;
  run.parameters = parameters.pointers.data();
  run.grid = dim3_of(f["grid"]);
  run.block_dim = dim3_of(f["block"]);
  run.shared_bytes = (u32)number(f["shared"]);
  run.seed = number(f["seed"]);
  run.step_limit = number(f["steps"]);
  launch((const int*)dlsym(library->handle, ("emu_bounds_" + f["entry"]).c_str()));
  answer(cpu_seconds() - start);
  for (auto& b : buffers) close_shadow(b.shadow);
  buffers.clear();
}

static void on_crash(int signal) {
  char line[160];
  const int n =
      snprintf(line, sizeof line, "{\"crash\":\"signal %d in block (%u, %u, %u), thread %d\"}\n",
               signal, current ? current->self.block.x : 0, current ? current->self.block.y : 0,
               current ? current->self.block.z : 0, current ? current->id : -1);
  if (write(1, line, (size_t)n) < 0) _exit(5);
  _exit(4);
}
static void catch_crashes() {
  static u8 stack[64 << 10];
  stack_t s{};
  s.ss_sp = stack;
  s.ss_size = sizeof stack;
  sigaltstack(&s, nullptr);
  struct sigaction a{};
  a.sa_handler = on_crash;
  a.sa_flags = SA_ONSTACK | SA_RESETHAND;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &a, nullptr);
}
static void set_limits(u64 bytes) {
  const struct rlimit none{0, 0}, memory{bytes, bytes};
  setrlimit(RLIMIT_CORE, &none);
  if (bytes) setrlimit(RLIMIT_AS, &memory);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}
int main(int count, char** arguments) {
  if (count != 5) {
    fprintf(stderr, "this program is started by tensorc.codegen.emulator\n");
    return 2;
  }
  heap_bytes = number(arguments[2]);
  void* address = (void*)number(arguments[3]);
  heap = (u8*)mmap(address, heap_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(arguments[1]), 0);
  if (heap != address) {
    fprintf(stderr, "device memory cannot be mapped at %p\n", address);
    return 3;
  }
  open_stacks();
  open_arenas();
  open_tables();
  set_limits(number(arguments[4]));
  catch_crashes();
  for (std::string line; std::getline(std::cin, line);) {
    if (line.rfind("launch ", 0) == 0) serve_launch(fields_of(line));
    else refuse("unknown request");
  }
}
