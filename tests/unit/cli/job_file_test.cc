#include "client/cli/job_file.h"

#include "tests/unit/cli/cli_test_fixture.h"

namespace accel::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kJob[] = R"(
num_processes: 2
labels: {team: a}
model: {mlp: {layer_sizes: [784, 64, 10]}}
loop: {num_epochs: 5}
accelerator: {gradient_accumulation_plugin: {num_steps: 4}}
device: cuda
)";

class JobFileTest : public CliTest {
 protected:
  absl::StatusOr<v1::JobSpec> Read(const std::vector<std::string>& overrides) {
    return ReadJobFile(io_, WriteFile("job.yaml", kJob), overrides);
  }
  std::istringstream in_;
  std::ostringstream out_;
  Io io_{.in = in_, .out = out_, .err = out_};
};

TEST_F(JobFileTest, ReadsFilesAndStandardInput) {
  EXPECT_EQ(Read({})->loop().num_epochs(), 5);
  in_.str(R"({"loop": {"max_steps": 7}})");
  EXPECT_EQ(ReadJobFile(io_, "-", {})->loop().max_steps(), 7);
}

TEST_F(JobFileTest, OverridesReplaceValues) {
  const auto spec = Read({"loop.num_epochs=2", "model.mlp.layer_sizes=[4, 3]", "labels.team=b: c",
                          "labels.a.b=x", "display_name=digits, all", "optimizer.adamw.lr=1e-3"});
  // "b: c" is a mapping in YAML, not a text.
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  const auto good = Read({"loop.num_epochs=2", "model.mlp.layer_sizes=[4, 3]", "labels.team=b",
                          "labels.a.b=x", "display_name=digits, all", "optimizer.adamw.lr=1e-3"});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->loop().num_epochs(), 2);
  EXPECT_THAT(good->model().mlp().layer_sizes(), ElementsAre(4, 3));
  EXPECT_EQ(good->labels().at("team"), "b");
  EXPECT_EQ(good->labels().at("a.b"), "x");
  EXPECT_EQ(good->display_name(), "digits, all");
  EXPECT_EQ(good->optimizer().adamw().lr(), 1e-3);
  EXPECT_EQ(good->num_processes(), 2);
}

TEST_F(JobFileTest, AnOverrideMayChooseAnotherModel) {
  const auto spec = Read({"model.gpt.num_layers=3"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->model().gpt().num_layers(), 3);
  EXPECT_FALSE(spec->model().has_mlp());
}

TEST_F(JobFileTest, ErrorsNameTheOverride) {
  for (const char* bad : {"loop.epochs=2", "loop.num_epochs=many", "loop", "=2",
                          "loop.num_epochs.x=2", "loop=3", "loop.num_epochs=2\nseed: 3"}) {
    const absl::Status status = Read({bad}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("--set ", bad)));
  }
}

TEST_F(JobFileTest, ErrorsNameTheFile) {
  const absl::Status missing = ReadJobFile(io_, dir_ / "none.yaml", {}).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("none.yaml: No such file or directory"));

  in_.str("loop: {epochs: 2}");
  const absl::Status unknown = ReadJobFile(io_, "-", {}).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("standard input: "));

  const absl::Status folder = ReadJobFile(io_, dir_.path().string(), {}).status();
  EXPECT_EQ(folder.code(), absl::StatusCode::kInvalidArgument);

  const std::string big = WriteFile("big.yaml", std::string((1 << 20) + 1, '#'));
  EXPECT_THAT(std::string(ReadJobFile(io_, big, {}).status().message()), HasSubstr("1048576"));
}

TEST_F(JobFileTest, AcceleratorComesFromEitherKindOfFile) {
  const auto job = ReadAcceleratorFile(io_, WriteFile("job.yaml", kJob));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->config.gradient_accumulation_plugin().num_steps(), 4);
  EXPECT_EQ(job->device, "cuda");
  const auto handlers =
      ReadAcceleratorFile(io_, WriteFile("h.yaml", "ddp_kwargs: {bucket_cap_mb: 50}"));
  ASSERT_TRUE(handlers.ok()) << handlers.status();
  EXPECT_EQ(handlers->config.ddp_kwargs().bucket_cap_mb(), 50);
  EXPECT_EQ(handlers->device, "cpu");
  EXPECT_FALSE(ReadAcceleratorFile(io_, WriteFile("x.yaml", "bogus: 1")).ok());
}

}  // namespace
}  // namespace accel::cli
