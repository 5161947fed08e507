// Tells ThreadSanitizer about the libraries that are not compiled with it.
// Abseil's mutexes come from Debian, so their ordering is invisible: the
// linker routes our calls (--wrap in CMakeLists.txt) through these functions,
// which announce it. RocksDB's own threads are left out altogether.
#if defined(__SANITIZE_THREAD__)

extern "C" {

void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);

// The last line is RocksDB's thread copying the options it was opened with.
const char* __tsan_default_suppressions() {
  return "called_from_lib:librocksdb.so\n"
         "called_from_lib:libabsl_graphcycles_internal.so\n"
         "race:^std::__cxx11::basic_string*::_M_assign\n";
}

// Readers release to an address of their own, so that two readers are not
// ordered by the lock and a race between them still shows.
static void* ReadersOf(void* mu) { return static_cast<char*>(mu) + 1; }

void __real__ZN4absl7debian35Mutex4LockEv(void* mu);
void __wrap__ZN4absl7debian35Mutex4LockEv(void* mu) {
  __real__ZN4absl7debian35Mutex4LockEv(mu);
  __tsan_acquire(mu);
  __tsan_acquire(ReadersOf(mu));
}

// An unlock evaluates the conditions of waiters, still under the lock.
void __real__ZN4absl7debian35Mutex6UnlockEv(void* mu);
void __wrap__ZN4absl7debian35Mutex6UnlockEv(void* mu) {
  __tsan_release(mu);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  __real__ZN4absl7debian35Mutex6UnlockEv(mu);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

void __real__ZN4absl7debian35Mutex10ReaderLockEv(void* mu);
void __wrap__ZN4absl7debian35Mutex10ReaderLockEv(void* mu) {
  __real__ZN4absl7debian35Mutex10ReaderLockEv(mu);
  __tsan_acquire(mu);
}

void __real__ZN4absl7debian35Mutex12ReaderUnlockEv(void* mu);
void __wrap__ZN4absl7debian35Mutex12ReaderUnlockEv(void* mu) {
  __tsan_release(ReadersOf(mu));
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  __real__ZN4absl7debian35Mutex12ReaderUnlockEv(mu);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

void __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(void* mu, const void* condition);
void __wrap__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(void* mu, const void* condition) {
  __tsan_release(mu);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(mu, condition);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  __tsan_acquire(mu);
  __tsan_acquire(ReadersOf(mu));
}

}  // extern "C"

#endif  // __SANITIZE_THREAD__
