// A run whose newest checkpoint is damaged goes on from the one before as if
// that were the only one: nothing of what was read of the damaged one is left.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/test_root.h"
#include "embedding_store/row_file_format.h"
#include "sample_io/generator.h"
#include "scheduler/online.h"
#include "scheduler/trainer.h"

namespace starling {
namespace {

// Five passes of four steps, a full checkpoint or an increment after each step.
constexpr char kConfig[] = R"(
name: resumed
data: {train: "%s/data/train", label: click, event_time: ts, batch: 100}
features:
  - {id: [C1..C6], dim: 4, table: {memory: 64MiB, admit: {exact_count: 2}}}
model: {deepfm: {hidden: [8]}}
optimizer: {sparse: {adagrad: {lr: 0.1}}, dense: {adam: {lr: 0.01}}}
train: {dir: "%s/run", epochs: 5, threads: %d, checkpoint: {every: 0s, every_steps: 1, keep: 30, full_every: %d}}
)";

// What training goes on from.
struct Learned {
  std::map<uint64_t, std::pair<uint32_t, std::vector<float>>> rows;  // Frequency, floats.
  std::vector<float> dense;
  int64_t steps = 0, samples = 0;
  bool operator==(const Learned&) const = default;
};
Learned LearnedBy(LocalModel& model, const TrainerState& state) {
  Learned learned;
  EXPECT_TRUE(model.store()
                  .table(0)
                  .ForEach([&](uint64_t id, const RowMeta& meta, std::span<const float> floats) {
                    learned.rows[id] = {meta.frequency, {floats.begin(), floats.end()}};
                  })
                  .ok());
  learned.dense.resize(model.network().param_floats());
  EXPECT_TRUE(model.store().PullDense(learned.dense).ok());
  learned.steps = state.step();
  learned.samples = state.samples();
  return learned;
}

// A row file with another weight in its first block, and the checksum of that.
std::string OtherRows(std::string file) {
  using namespace row_file;
  char* const block = &file[kHeaderPrefix + Get<uint32_t>(&file[12]) + 4];
  const auto bytes = Get<uint32_t>(block + 8);
  block[kBlockPrefix + bytes - 1] ^= 1;
  const uint32_t crc = Crc32c({block + kBlockPrefix, bytes}, Crc32c({block, 12}));
  std::memcpy(block + 12, &crc, sizeof(crc));
  return file;
}

struct ResumeCase {
  int threads, full_every;
};
class ResumeTest : public testing::TestWithParam<ResumeCase> {
 protected:
  ResumeTest() : dir_(JoinPath(TestRoot(), "resume")), ckpt_(JoinPath(dir_, "run/ckpt")) {}
  ~ResumeTest() override { EXPECT_TRUE(RemoveAll(dir_).ok()); }

  void SetUp() override {
    ASSERT_TRUE(RemoveAll(dir_).ok());
    GeneratorOptions data;
    data.out = JoinPath(dir_, "data");
    data.rows = 400;
    data.eval_rows = 10;
    data.days = 1;
    ASSERT_TRUE(Generate(data).ok());
    source_ = *SampleSource::Open({JoinPath(dir_, "data/train")});
    Job job;
    const std::string text =
        absl::StrFormat(kConfig, dir_, dir_, GetParam().threads, GetParam().full_every);
    ASSERT_TRUE(ParseYaml(text, "job.yaml", {}, &job, &map_).ok());
    auto plan = MakePlan(job, map_);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
    undisturbed_ = Train(/*resume=*/false);
    // As a kill leaves it: two steps before its end.
    const std::vector<std::string> sets = *ListDir(ckpt_);
    ASSERT_GE(sets.size(), 20u);
    for (const std::string& name : sets) {
      const bool later = name > "step-000000000018";
      ASSERT_TRUE(!later || RemoveAll(JoinPath(ckpt_, name)).ok());
    }
    std::filesystem::rename(ckpt_, JoinPath(dir_, "killed"));
  }
  Learned Train(bool resume) {
    Trainer trainer(plan_, source_.get(), nullptr, &stop_);
    const absl::Status status = trainer.Run(resume);
    EXPECT_TRUE(status.ok()) << status;
    return LearnedBy(trainer.model(), trainer.summary().state);
  }
  // Resumes with `file` of the newest checkpoint replaced; what was said.
  std::string ResumeWith(const std::string& file, const std::string& bytes) {
    std::filesystem::remove_all(ckpt_);
    std::filesystem::copy(JoinPath(dir_, "killed"), ckpt_,
                          std::filesystem::copy_options::recursive);
    EXPECT_TRUE(WriteFileAtomically(JoinPath(Newest(), file), bytes).ok());
    testing::internal::CaptureStderr();
    const Learned learned = Train(/*resume=*/true);
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(learned == undisturbed_) << file << ": " << said;
    return said;
  }
  std::string Newest() const { return JoinPath(ckpt_, "step-000000000018"); }
  std::string Killed(const std::string& set, const std::string& file) const {
    return JoinPath(JoinPath(JoinPath(dir_, "killed"), set), file);
  }

  const std::string dir_, ckpt_;
  std::atomic<bool> stop_{false};
  SourceMap map_;
  Plan plan_;
  std::unique_ptr<SampleSource> source_;
  Learned undisturbed_;
};
INSTANTIATE_TEST_SUITE_P(Threads, ResumeTest,
                         testing::Values(ResumeCase{1, 1}, ResumeCase{3, 1}, ResumeCase{3, 4}));

TEST_P(ResumeTest, OfADamagedOneNothingIsLeft) {
  const std::vector<std::string> files = *ListDir(JoinPath(dir_, "killed/step-000000000018"));
  ASSERT_GE(files.size(), 4u);
  for (const std::string& file : files) {
    const std::string good = *ReadFile(Killed("step-000000000018", file));
    EXPECT_FALSE(absl::StrContains(ResumeWith(file, good), "DAMAGED"));
    // Header, blocks, extras and footer of a row file.
    for (size_t at : {size_t{0}, size_t{20}, good.size() / 3, good.size() - 60, good.size() - 1}) {
      if (at >= good.size()) continue;
      std::string bad = good;
      bad[at] ^= 4;
      const std::string said = ResumeWith(file, bad);
      EXPECT_TRUE(absl::StrContains(said, absl::StrCat("DAMAGED CHECKPOINT ", Newest()))) << said;
      EXPECT_TRUE(absl::StrContains(said, "FALLING BACK to checkpoint ")) << said;
      EXPECT_TRUE(absl::StrContains(said, "step-000000000017 at step 17")) << said;
    }
    // Another of its size, whole in itself. Were the rest taken with it, rows, dense
    // parameters and names of batches would be of two instants.
    const std::string other =
        file.ends_with(".rows") ? OtherRows(good) : *ReadFile(Killed("step-000000000017", file));
    EXPECT_TRUE(other.size() == good.size() || file == "MANIFEST") << file;
    EXPECT_TRUE(absl::StrContains(ResumeWith(file, other), "DAMAGED CHECKPOINT ")) << file;
  }
}

TEST_P(ResumeTest, OnlineLearningLeavesNothingOfADamagedOneEither) {
  auto start = [&]() -> Learned {
    auto learner = OnlineLearner::Create(plan_, map_, JoinPath(dir_, "data"), &stop_);
    EXPECT_TRUE(learner.ok()) << learner.status();
    if (!learner.ok()) return {};
    return LearnedBy((*learner)->model(), (*learner)->state());
  };
  std::filesystem::rename(JoinPath(dir_, "killed"), ckpt_);
  const Learned newest = start();
  // It is read last, when all else has been loaded.
  const std::string file = JoinPath(Newest(), "applied-0-of-1.bin");
  std::string bytes = *ReadFile(file);
  bytes[bytes.size() / 2] ^= 4;
  ASSERT_TRUE(WriteFileAtomically(file, bytes).ok());
  const Learned fallen_back = start();
  ASSERT_TRUE(RemoveAll(Newest()).ok());
  EXPECT_TRUE(fallen_back == start());
  EXPECT_EQ(newest.steps, 18);
  EXPECT_EQ(fallen_back.steps, 17);
}

}  // namespace
}  // namespace starling
