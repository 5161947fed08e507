// TableStripe: one part of an EmbeddingTable, with its own lock, index, rows
// and hands. It does what the table promises for the ids of its buckets; the
// table only splits calls and joins results.
//
// A call goes over its ids once, with index lines and rows brought into cache
// ahead. Ids that are not in memory are read from the cold tier without the
// lock, all at once for the whole call, and handled in a second turn. A row
// that left memory in between is noticed by its version and read again under
// the lock.
//
// Demotion takes rows that were not touched lately (CLOCK), of these the least
// frequent ones, and none that was prefetched and not stepped yet if there are
// others. It goes a slice at a time: rows are copied, written without the lock, and leave memory
// only if nobody touched them meanwhile; a failed write loses nothing. A row that comes back keeps
// its cold copy, which is outdated from the first change on.
//
// Thread safety: any method, any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "embedding_store/admission.h"
#include "embedding_store/bucket_index.h"
#include "embedding_store/cold_tier.h"
#include "embedding_store/row_block.h"
#include "embedding_store/row_file.h"
#include "embedding_store/row_slab.h"
#include "embedding_store/stripe_scan.h"
#include "embedding_store/table_core.h"

namespace starling {

class TableStripe {
 public:
  explicit TableStripe(TableCore* core);

  // False if the machine gave no memory to begin with.
  bool ok() {
    absl::MutexLock lock(&mu_);
    return Room() > 0;
  }

  // The first turn: handles what is in memory. Appends ids that may be in the
  // cold tier to `missed`; ids that are nowhere are handled as well. With
  // update: dense a kGradients call steps the other rows too, under the same
  // lock, so that two calls at once are two steps of every row.
  absl::Status Run(const TableCall& call, const StripePart& part, std::vector<Missed>* missed);
  // The second turn. rows.row(first + i) is what the cold tier holds of missed[i].
  absl::Status RunMissed(const TableCall& call, std::span<const Missed> missed,
                         const ColdRows& rows, size_t first);

  absl::Status Erase(std::span<const uint64_t> ids);
  // Some `rows` will soon be made; a good part of them stay in memory.
  void ExpectRows(int64_t rows);
  // As ExpectRows, and takes the memory for them now, as far as it goes.
  void TakeMemory(int64_t rows);
  // Sets or, for a tombstone, removes rows, one after the other: an id may be there twice.
  absl::Status Put(std::span<const RowRecord> records);

  // Writes rows to the cold tier until a fiftieth of the stripe's memory, and
  // `room` rows, are free, if the budget is used up; at most one slice. True: call again.
  absl::StatusOr<bool> Demote(int64_t room = 0);
  // Looks at the next `slots` rows and evicts what is expired, of too small a
  // norm, or, for up to `surplus` rows, seldom seen.
  absl::Status Sweep(int64_t slots, int64_t surplus);
  // The same for rows of the cold tier, given by id: reads them and decides.
  // `last`: all cold rows of the stripe have been looked at in this round.
  absl::Status SweepCold(std::span<const uint64_t> ids, int64_t surplus, bool last);

  // ---- Snapshot ----
  // From here on rows of an older epoch are copied aside before they change.
  // Appends the admission state, behind its length (u64), and the tombstones since `since`.
  void BeginSnapshot(uint32_t since, std::string* admission, std::vector<uint64_t>* tombstones);
  // Adds the changed rows among the next slots, until `out` is full; false at
  // the end. What was copied aside is in the queue then.
  bool CopyRows(int64_t slots, RowBlock* out);
  void EndSnapshot();
  // Forgets tombstones of epochs before `epoch`.
  void DropTombstones(uint32_t epoch);
  // Tombstones of this epoch and later are complete.
  uint32_t tombstones_from();

  // Calls fn(row) for every row by (bucket, id), memory and cold merged.
  // `cold` stands at the stripe's first cold row and is left behind its last.
  absl::Status Walk(uint32_t bucket_end, ColdTier::Cursor* cold,
                    const std::function<absl::Status(const RowHeader&)>& fn);

  absl::Status MergeAdmission(absl::string_view state, const std::function<bool(uint64_t)>& owns);
  uint64_t steps();
  void RaiseSteps(uint64_t steps);  // To at least `steps`.
  void AddStats(TableStats* stats);

 private:
  class ColdCopies;  // Of rows that come from a file.
  struct Pulled;     // What kCreate needs for every row that it finds,
  struct Stepped;    // and kGradients.
  class StepBlock;   // Rows that take their step together.

  static constexpr uint32_t kVersions = 1024;
  static constexpr uint32_t kNoCursor = 0xFFFFFFFF;

  uint32_t FindSlot(uint64_t id) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  uint32_t& Version(uint64_t id) ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return versions_[BucketIndex::HashOf(id) >> 40 & (kVersions - 1)];
  }
  // Prefetch notes ids that are in neither tier, so that the call which makes
  // their rows need not ask the cold tier again. A note holds until the row
  // leaves memory: FreeSlot takes it back. Other notes may overwrite it.
  uint64_t* NoteOf(uint64_t id) ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return &nowhere_[BucketIndex::HashOf(id) >> 40 & (nowhere_.size() - 1)];
  }
  bool KnownNowhere(uint64_t id) ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return !nowhere_.empty() && id != 0 && *NoteOf(id) == id;
  }
  // A kLookup call changes nothing but marks and counts, and shares the lock
  // with others of its kind; every other call has it alone.
  absl::Status RunLocked(const TableCall& call, const StripePart& part, std::vector<Missed>* missed)
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Finds all ids of the part: on_hit(position, row) for those in memory,
  // which uses no more than `used` of a row; the others are appended to `missed`.
  template <typename Where, typename Lines, typename OnHit>
  void Scan(Where where, const StripePart& part, Lines used, std::vector<Missed>* missed,
            const OnHit& on_hit) ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void ScanLookup(const TableCall& call, const StripePart& part, std::vector<Missed>* missed)
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void ScanCreate(const TableCall& call, const StripePart& part, std::vector<Missed>* missed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ScanSteps(const TableCall& call, const StripePart& part, std::vector<Missed>* missed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ScanCall(const TableCall& call, const StripePart& part, std::vector<Missed>* missed)
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Handles ids that were not in memory; `rows` null: nor in the cold tier.
  absl::Status Settle(const TableCall& call, std::span<const Missed> missed, const ColdRows* rows,
                      size_t first) ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // What a call does to a row in memory, to one that is only in the cold tier,
  // and to an id without a row. The last two may need room for one row.
  void Hit(const TableCall& call, uint32_t p, RowHeader* row) ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void FromCold(const TableCall& call, uint32_t p, const RowHeader& row)
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void Absent(const TableCall& call, uint32_t p, bool admitted) ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // `width` is the layout's, perhaps one that is known when this is compiled.
  template <typename Width>
  void HitCreate(const Pulled& pulled, Width width, uint32_t p, RowHeader* row)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HitStep(const Stepped& stepped, uint32_t p, RowHeader* row, StepBlock* steps)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HitDelta(const TableCall& call, uint32_t p, RowHeader* row)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Pulled PulledOf(const TableCall& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Stepped SteppedOf(const TableCall& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes a page huge if there is time for it, after a call that made some of its ids' rows.
  void MakeHuge(int64_t started_ns, uint64_t made, uint64_t ids) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // An expired row begins anew.
  void Renew(RowHeader* row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Steps by a gradient of 0 the rows that the call did not name.
  void StepOthers(float lr_scale) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Called before a row's bytes change or go: a snapshot under way gets it
  // first, unless it has the row or does not want it.
  void BeforeChange(const RowHeader* row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (cursor_ != kNoCursor && row >= &rows_.row(cursor_) && Wanted(*row)) [[unlikely]]
      CopyAside(*row);
  }
  bool Wanted(const RowHeader& row) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return row.has(kRowDirty) && row.epoch >= since_ &&
           row.epoch < core_.epoch.load(std::memory_order_relaxed);
  }
  void CopyAside(const RowHeader& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Changed(RowHeader* row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    row->Set(kRowDirty | kRowReferenced);
    row->epoch = core_.epoch.load(std::memory_order_relaxed);
  }
  void InitRow(RowHeader* row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Makes room for at least one new row. May give up the lock meanwhile.
  // ResourceExhausted if tier is memory and the budget is full.
  absl::Status Reserve() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A step of growth, if the budget and the machine have it.
  bool GrowRows() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool GrowIndex() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Both, until there is room for one new row. Keeps the lock.
  bool GrowToRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (Room() == 0) {
      if (!(index_.room() == 0 ? GrowIndex() : GrowRows())) return false;
    }
    return true;
  }
  bool Pay(int64_t bytes);
  int64_t Room() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // REQUIRES: Reserve gave room for it.
  uint32_t NewSlot(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint32_t Promote(const RowHeader& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status DemoteSlice() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The slot the clock's hand points to; the hand moves on.
  uint32_t NextOfClock() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Up to `wanted` slots of rows to demote, by (bucket, id).
  std::vector<uint32_t> LeastWanted(size_t wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PickVictims(std::vector<uint32_t>* slots, std::vector<char>* bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishVictims(std::span<const uint32_t> slots, bool written)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Removes a row from memory; its cold copy, if it has one, is another matter.
  void FreeSlot(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status EraseLocked(std::span<const uint64_t> ids) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Removes a row from both tiers and notes a tombstone.
  absl::Status Evict(std::span<const uint32_t> slots) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status EvictCold(std::span<const uint64_t> ids) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AwaitWritten() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteGone(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Expired(uint32_t row_time, int64_t event_time) const;
  bool Doomed(const RowHeader& row) const;
  // Who is seldom seen depends on what there is: the bar moves at most once a
  // round over all rows, and up only if the round did not take enough of them.
  void MoveBar(int64_t surplus) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  TableCore& core_;
  absl::Mutex mu_;
  BucketIndex index_ ABSL_GUARDED_BY(mu_);
  RowSlab rows_ ABSL_GUARDED_BY(mu_);
  AdmissionFilter admission_ ABSL_GUARDED_BY(mu_);
  uint32_t hand_ ABSL_GUARDED_BY(mu_) = 0;      // Of the clock: the next slot to look at.
  bool ageing_ ABSL_GUARDED_BY(mu_) = false;    // Rows age in this round of the hand.
  int64_t left_ ABSL_GUARDED_BY(mu_) = 0;       // Rows demoted since the last such round.
  uint32_t sweep_ ABSL_GUARDED_BY(mu_) = 0;     // The next slot to look at for eviction.
  uint32_t aged_ ABSL_GUARDED_BY(mu_) = 1;      // Frequency up to which a surplus row goes.
  int64_t aged_out_ ABSL_GUARDED_BY(mu_) = 0;   // Rows that went so, this round.
  int64_t rows_cold_ ABSL_GUARDED_BY(mu_) = 0;  // Rows that are in the cold tier alone.
  uint64_t steps_ ABSL_GUARDED_BY(mu_) = 0;     // kGradients calls, with update: dense.
  // Slots from here on have not been copied by the snapshot under way.
  uint32_t cursor_ ABSL_GUARDED_BY(mu_) = kNoCursor;
  uint32_t since_ ABSL_GUARDED_BY(mu_) = 0;  // It wants no rows of an earlier epoch.
  RowBlock aside_ ABSL_GUARDED_BY(mu_);      // Copied aside, and not in the queue yet.
  // Rows are being written without the lock. Meanwhile no row leaves memory.
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  // Count the demotions of ids, by hash: see Missed.
  std::array<uint32_t, kVersions> versions_ ABSL_GUARDED_BY(mu_) = {};
  std::vector<uint64_t> nowhere_ ABSL_GUARDED_BY(mu_);  // Notes by hash; 0: none.
  std::vector<std::pair<uint32_t, uint64_t>> tombstones_ ABSL_GUARDED_BY(mu_);  // Epoch, id.
  uint32_t tombstones_from_ ABSL_GUARDED_BY(mu_) = 0;
  TableStats stats_ ABSL_GUARDED_BY(mu_);  // Counters only, without those below.
  std::atomic<int64_t> hits_memory_{0}, hits_cold_{0}, misses_{0};  // Readers count too.
};

}  // namespace starling
