// Tells ThreadSanitizer what libraries that are not compiled with it do.
// Linked into every test of the tsan preset. Abseil's mutexes come from
// Debian, so the order they make is invisible: the linker routes our calls
// (--wrap, in cmake/Rules.cmake) through these functions, which announce it.
// What Abseil and RocksDB do inside is left out altogether. Tests that run
// under TSan use std::promise rather than absl::Notification, whose own
// mutex is out of reach.
extern "C" {

void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);

const char* __tsan_default_suppressions() {
  return "called_from_lib:librocksdb.so\n"
         "called_from_lib:libabsl_graphcycles_internal.so\n"
         // RocksDB's threads hand each other strings whose inline functions are
         // ours, so that TSan sees the accesses and not the locks around them.
         "race:librocksdb.so\n"
         // The same, where the stack no longer shows whose call it was.
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
