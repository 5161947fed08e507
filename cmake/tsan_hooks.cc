// Tells ThreadSanitizer what libraries that are not compiled with it do.
// Linked into every test of the tsan preset. Abseil's mutexes, condition variables
// and notifications come from Debian, so the order they make is invisible: the linker
// routes our calls (--wrap, in cmake/Rules.cmake) through these functions, which
// announce it. What Abseil and RocksDB do inside is left out altogether, and so are
// races with a frame in Arrow's library.
extern "C" {

void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);

const char* __tsan_default_suppressions() {
  return "called_from_lib:librocksdb.so\n"
         "called_from_lib:libabsl_graphcycles_internal.so\n"
         // Arrow's allocator, and its thread that gives memory back.
         "race:libarrow.so\n"
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

// A wait gives the lock up, reads what it likes in between, and has the lock again at its end.
static void BeginWait(void* mu) {
  __tsan_release(mu);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
}
static void EndWait(void* mu) {
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  __tsan_acquire(mu);
  __tsan_acquire(ReadersOf(mu));
}

void __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(void* mu, const void* condition);
void __wrap__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(void* mu, const void* condition) {
  BeginWait(mu);
  __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(mu, condition);
  EndWait(mu);
}

struct Duration {  // As the ABI hands absl::Duration over.
  long high;
  unsigned low;
};
bool __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    void* mu, const void* condition, Duration time);
bool __wrap__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    void* mu, const void* condition, Duration time) {
  BeginWait(mu);
  const bool met = __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
      mu, condition, time);
  EndWait(mu);
  return met;
}

void __real__ZN4absl7debian37CondVar4WaitEPNS0_5MutexE(void* condition, void* mu);
void __wrap__ZN4absl7debian37CondVar4WaitEPNS0_5MutexE(void* condition, void* mu) {
  BeginWait(mu);
  __real__ZN4absl7debian37CondVar4WaitEPNS0_5MutexE(condition, mu);
  EndWait(mu);
}

void __real__ZN4absl7debian312Notification6NotifyEv(void* notification);
void __wrap__ZN4absl7debian312Notification6NotifyEv(void* notification) {
  __tsan_release(notification);
  __real__ZN4absl7debian312Notification6NotifyEv(notification);
}

void __real__ZNK4absl7debian312Notification19WaitForNotificationEv(void* notification);
void __wrap__ZNK4absl7debian312Notification19WaitForNotificationEv(void* notification) {
  __real__ZNK4absl7debian312Notification19WaitForNotificationEv(notification);
  __tsan_acquire(notification);
}

}  // extern "C"
