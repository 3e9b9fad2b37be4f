#include "core/base/errors.h"
#include "tests/unit/cli/cli_test_fixture.h"

namespace accel::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

v1::Job MakeJob(const std::string& id, v1::Job::State state, int64_t step) {
  v1::Job job;
  job.set_name("jobs/" + id);
  job.set_state(state);
  job.mutable_spec()->set_num_processes(2);
  job.mutable_create_time()->set_seconds(1935489600);
  job.mutable_start_time()->set_seconds(1935489601);
  job.mutable_end_time()->set_seconds(1935489801);
  job.mutable_progress()->set_step(step);
  job.mutable_progress()->set_total_steps(100);
  job.mutable_progress()->set_epoch(1);
  job.mutable_progress()->set_total_epochs(4);
  return job;
}

class JobCommandsTest : public NodeCliTest {
 protected:
  std::string file_ = WriteFile("job.yaml", "loop: {num_epochs: 3}\n");
};

TEST_F(JobCommandsTest, SubmitPrintsTheName) {
  node_.job.set_name("jobs/chosen");
  node_.job.add_warnings("accelerator.ddp_kwargs.dim: has no effect");
  CliResult result = Run({"submit", file_});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_EQ(result.out, "jobs/chosen\n");
  EXPECT_EQ(result.err, "accelctl: warning: accelerator.ddp_kwargs.dim: has no effect\n");
  EXPECT_EQ(node_.create_requests.at(0).spec().loop().num_epochs(), 3);
  EXPECT_FALSE(node_.create_requests.at(0).request_id().empty());

  result = Run({"submit", "--set", "loop.num_epochs=9", "-", "--id", "mine", "--request-id", "r1"},
               "loop: {num_epochs: 3}");
  EXPECT_EQ(result.out, "jobs/mine\n");
  EXPECT_EQ(node_.create_requests.at(1).spec().loop().num_epochs(), 9);
  EXPECT_EQ(node_.create_requests.at(1).request_id(), "r1");
  EXPECT_FALSE(node_.create_requests.at(1).validate_only());
}

TEST_F(JobCommandsTest, ValidateChecksOnly) {
  node_.job.mutable_resolved_accelerator()->set_mixed_precision("no");
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"validate", file_}, {"submit", "--validate-only", file_}}) {
    const CliResult result = Run(args);
    EXPECT_EQ(result.code, ExitCode::kOk) << result.err;
    EXPECT_EQ(result.out,
              "valid: 1 rank on cpu\n"
              "accelerator, every default filled in:\n"
              "mixed_precision  no\n");
    EXPECT_TRUE(node_.create_requests.back().validate_only());
  }
}

TEST_F(JobCommandsTest, ViolationsAreOneALine) {
  FieldViolations violations;
  violations.Add("loop.num_epochs", "0 is not allowed; allowed: 1 to 1000000");
  violations.Add("model", "is required\x1b[2J");
  node_.failures = {violations.ToStatus()};
  const CliResult result = Run({"validate", file_});
  EXPECT_EQ(result.code, ExitCode::kInvalid);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "accelctl: error: 2 fields are invalid\n"
            "loop.num_epochs: 0 is not allowed; allowed: 1 to 1000000\n"
            "model: is required\\x1b[2J\n"
            "accelctl: correct these fields, then check again with: accelctl validate FILE\n");
}

TEST_F(JobCommandsTest, ExitCodesSayWhatWentWrong) {
  const std::vector<std::pair<absl::Status, ExitCode>> cases = {
      {absl::InvalidArgumentError("x"), ExitCode::kInvalid},
      {absl::NotFoundError("x"), ExitCode::kNotFound},
      {absl::AlreadyExistsError("x"), ExitCode::kRefused},
      {absl::FailedPreconditionError("x"), ExitCode::kRefused},
      {absl::ResourceExhaustedError("x"), ExitCode::kRefused},
      {NotImplemented("accelerator.mixed_precision=\"bf16\""), ExitCode::kNotImplemented},
      {absl::DeadlineExceededError("x"), ExitCode::kUnreachable},
      {absl::InternalError("x"), ExitCode::kOther},
      {absl::PermissionDeniedError("x"), ExitCode::kOther},
  };
  for (const auto& [status, code] : cases) {
    node_.failures = {status};
    const CliResult result = Run({"submit", file_});
    EXPECT_EQ(result.code, code) << status;
    EXPECT_THAT(result.err, StartsWith("accelctl: error: " + std::string(status.message()) + "\n"));
  }
}

TEST_F(JobCommandsTest, EachErrorSaysWhatToDo) {
  node_.failures = {absl::NotFoundError("no job \"a\" on this node")};
  EXPECT_EQ(Run({"get", "a"}).err,
            "accelctl: error: no job \"a\" on this node\n"
            "accelctl: see which jobs there are with: accelctl list\n");
  node_.failures = {absl::FailedPreconditionError("job \"a\" has ended")};
  EXPECT_EQ(Run({"cancel", "a"}).err,
            "accelctl: error: job \"a\" has ended\n"
            "accelctl: see its state with: accelctl get a\n");
  node_.failures = {absl::AlreadyExistsError("job id \"a\" is in use")};
  EXPECT_EQ(Run({"submit", file_, "--id", "a"}).err,
            "accelctl: error: job id \"a\" is in use\n"
            "accelctl: choose another --id, or remove the old job with: accelctl delete a\n");
}

TEST_F(JobCommandsTest, BadJobNamesNeverReachTheDaemon) {
  for (const char* bad : {"Upper", "jobs/", "-a", "a-", "a/b", "jobs/jobs/a"}) {
    const CliResult result = Run({"get", "--", bad});
    EXPECT_EQ(result.code, ExitCode::kInvalid) << bad;
    EXPECT_THAT(result.err, HasSubstr("is no job's name"));
  }
  EXPECT_EQ(Run({"submit", file_, "--id", "Upper"}).code, ExitCode::kInvalid);
  EXPECT_THAT(node_.get_requests, IsEmpty());
  EXPECT_THAT(node_.create_requests, IsEmpty());
}

TEST_F(JobCommandsTest, GetShowsTheJob) {
  node_.job = MakeJob("mnist", v1::Job::FAILED, 41);
  node_.job.mutable_failure()->set_cause(v1::Failure::SIGNAL);
  node_.job.mutable_failure()->set_message("rank 1 exited on signal 9 at step 41");
  const CliResult result = Run({"get", "jobs/mnist"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_EQ(result.out,
            "name      jobs/mnist\n"
            "state     FAILED\n"
            "failure   rank 1 exited on signal 9 at step 41\n"
            "cause     signal\n"
            "ranks     2 on cpu\n"
            "step      41/100\n"
            "epoch     2/4\n"
            "created   2031-05-02 12:00:00\n"
            "started   2031-05-02 12:00:01\n"
            "ended     2031-05-02 12:03:21\n"
            "run time  3m20s\n");
  EXPECT_EQ(node_.get_requests.at(0).name(), "jobs/mnist");
  node_.job.mutable_early_stopped()->set_step(41);
  node_.job.mutable_early_stopped()->set_reason("train/loss has reached 0.3 with 0.25");
  EXPECT_THAT(Run({"get", "mnist"}).out,
              HasSubstr("stopped early  at step 41: train/loss has reached 0.3 with 0.25\n"));
  EXPECT_THAT(Run({"get", "mnist", "-o", "json"}).out, HasSubstr("\"name\": \"jobs/mnist\""));
  EXPECT_THAT(Run({"get", "mnist", "-o", "yaml"}).out, HasSubstr("name: jobs/mnist\n"));
}

TEST_F(JobCommandsTest, GetShowsMachineAndAttempts) {
  node_.job = MakeJob("search", v1::Job::RUNNING, 41);
  node_.job.mutable_spec()->mutable_multi_node()->set_num_machines(2);
  v1::Attempt* attempt = node_.job.add_attempts();
  attempt->set_number(1);
  attempt->set_batch_size(64);
  attempt->add_workers()->set_pid(70);
  attempt->mutable_failure()->set_message("rank 0 failed at step 1: out of memory");
  attempt = node_.job.add_attempts();
  attempt->set_number(2);
  attempt->set_batch_size(57);
  attempt->add_workers()->set_pid(71);
  const std::string out = Run({"get", "search"}).out;
  EXPECT_THAT(out, HasSubstr("machine     0 of 2\n"));
  EXPECT_THAT(out, HasSubstr("batch size  57\n"));
  EXPECT_THAT(out, HasSubstr("attempt 1   batch size 64, pids 70: rank 0 failed at step 1: out of "
                             "memory\n"));
  EXPECT_THAT(out, HasSubstr("attempt 2   batch size 57, pids 71\n"));
}

TEST_F(JobCommandsTest, ListIsATable) {
  node_.jobs = {MakeJob("newest", v1::Job::RUNNING, 100), MakeJob("b", v1::Job::SUCCEEDED, 7),
                MakeJob("c", v1::Job::QUEUED, 0)};
  node_.jobs[2].clear_progress();
  node_.jobs[2].clear_start_time();
  node_.jobs[0].mutable_spec()->mutable_multi_node()->set_num_machines(2);
  node_.jobs[0].mutable_spec()->mutable_multi_node()->set_machine_rank(1);
  node_.jobs[0].add_attempts()->set_batch_size(64);
  node_.jobs[0].add_attempts()->set_batch_size(57);
  node_.jobs[1].mutable_spec()->mutable_data()->set_batch_size(64);
  EXPECT_EQ(
      Run({"list"}).out,
      "NAME    STATE      STEP     EPOCH  RANKS  MACHINE  BATCH  ATTEMPTS  CREATED           "
      "   RUN TIME\n"
      "newest  RUNNING    100/100  2/4    2      1 of 2   57     2         2031-05-02 12:00:00"
      "  3m20s\n"
      "b       SUCCEEDED  7/100    2/4    2      -        64     0         2031-05-02 12:00:00"
      "  3m20s\n"
      "c       QUEUED     -        -      2      -        -      0         2031-05-02 12:00:00"
      "  -\n");
  EXPECT_EQ(Run({"list", "--names"}).out, "newest\nb\nc\n");
  terminal_ = true;
  EXPECT_THAT(Run({"list"}).out, HasSubstr("\x1b[32mSUCCEEDED\x1b[0m"));
  EXPECT_THAT(Run({"list", "--no-color"}).out, Not(HasSubstr("\x1b")));
  environment_["NO_COLOR"] = "1";
  EXPECT_THAT(Run({"list"}).out, Not(HasSubstr("\x1b")));
}

TEST_F(JobCommandsTest, ListAsJsonAndYaml) {
  EXPECT_EQ(Run({"list", "-o", "json"}).out, "{\n  \"jobs\": []\n}\n");
  EXPECT_EQ(Run({"list", "-o", "yaml"}).out, "jobs: []\n");
  node_.jobs.resize(2);
  node_.jobs[0].set_name("jobs/a");
  node_.jobs[0].set_state(v1::Job::RUNNING);
  node_.jobs[1].set_name("jobs/b");
  EXPECT_EQ(Run({"-o", "json", "list"}).out,
            "{\n  \"jobs\": [\n    {\n      \"name\": \"jobs/a\",\n      \"state\": \"RUNNING\"\n"
            "    },\n    {\n      \"name\": \"jobs/b\"\n    }\n  ]\n}\n");
  EXPECT_EQ(Run({"list", "-o", "yaml"}).out,
            "jobs:\n  - name: jobs/a\n    state: RUNNING\n  - name: jobs/b\n");
}

TEST_F(JobCommandsTest, ListFiltersByStateInAnyCase) {
  Run({"list", "--state", "running", "--state", "QUEUED"});
  EXPECT_THAT(node_.list_requests.at(0).states(), ElementsAre(v1::Job::RUNNING, v1::Job::QUEUED));
  const CliResult result = Run({"list", "--state", "sleeping"});
  EXPECT_EQ(result.code, ExitCode::kInvalid);
  EXPECT_THAT(result.err, HasSubstr("sleeping"));
}

TEST_F(JobCommandsTest, EmptyListSaysSo) {
  const CliResult result = Run({"list"});
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "accelctl: no jobs; submit one with: accelctl submit FILE\n");
}

TEST_F(JobCommandsTest, CancelAndDelete) {
  node_.job = MakeJob("a", v1::Job::STOPPING, 5);
  EXPECT_EQ(Run({"cancel", "a", "--grace", "2.5"}).out, "jobs/a STOPPING\n");
  EXPECT_EQ(node_.cancel_requests.at(0).grace_seconds(), 2.5);
  Run({"cancel", "a"});
  EXPECT_FALSE(node_.cancel_requests.at(1).has_grace_seconds());
  EXPECT_EQ(Run({"cancel", "a", "--grace", "-1"}).code, ExitCode::kInvalid);
  EXPECT_EQ(Run({"delete", "a"}).out, "jobs/a deleted\n");
  EXPECT_EQ(node_.delete_requests.at(0).name(), "jobs/a");
}

TEST_F(JobCommandsTest, Checkpoints) {
  EXPECT_EQ(Run({"checkpoints", "a"}).err, "accelctl: jobs/a has no complete checkpoint\n");
  v1::Checkpoint& checkpoint = node_.checkpoints.emplace_back();
  checkpoint.set_name("jobs/a/checkpoints/3");
  checkpoint.set_step(30);
  checkpoint.set_bytes(2048);
  checkpoint.set_path("/state/jobs/a/checkpoints/3");
  EXPECT_EQ(Run({"checkpoints", "a"}).out,
            "NAME                  STEP  EPOCH  SIZE     CREATED  PATH\n"
            "jobs/a/checkpoints/3  30    0      2.0 KiB  -        /state/jobs/a/checkpoints/3\n");
  EXPECT_THAT(Run({"checkpoints", "a", "-o", "json"}).out, StartsWith("{\n  \"checkpoints\": [\n"));
  EXPECT_EQ(Run({"checkpoints", "a", "--create"}).code, ExitCode::kOk);
  EXPECT_EQ(node_.create_checkpoint_requests.at(0).parent(), "jobs/a");
}

TEST_F(JobCommandsTest, NodeAndEnv) {
  node_.node.set_version("9.9");
  node_.node.set_host_name("box");
  EXPECT_THAT(Run({"node"}).out, HasSubstr("version       9.9\n"));
  EXPECT_THAT(Run({"env"}).out, HasSubstr("acceld        9.9\n"));
  EXPECT_THAT(Run({"env", "-o", "json"}).out, HasSubstr("\"acceld\": \"9.9\""));
  EXPECT_THAT(Run({"daemon", "status"}).out, HasSubstr("state         serving\n"));
}

TEST_F(CliTest, UnreachableDaemon) {
  CliResult result = Run({"list"});
  EXPECT_EQ(result.code, ExitCode::kUnreachable);
  EXPECT_EQ(result.err, "accelctl: error: no running daemon found in " + dir_.path().string() +
                            " or /var/lib/accel\n"
                            "accelctl: start one with: accelctl daemon start\n");
  const std::string address = "unix:" + dir_ / "gone.sock";
  result = Run({"list", "--address", address});
  EXPECT_EQ(result.code, ExitCode::kUnreachable);
  EXPECT_THAT(result.err, HasSubstr("daemon at " + address + " does not answer"));
  EXPECT_THAT(result.err, HasSubstr("accelctl daemon start"));
  EXPECT_EQ(Run({"watch", "a", "--address", address}).code, ExitCode::kUnreachable);
  EXPECT_EQ(Run({"daemon", "status"}).code, ExitCode::kUnreachable);
  EXPECT_THAT(Run({"env"}).out, HasSubstr("not reachable"));
}

TEST_F(CliTest, BadUsage) {
  EXPECT_EQ(Run({}).code, ExitCode::kInvalid);
  EXPECT_EQ(Run({"bogus"}).code, ExitCode::kInvalid);
  EXPECT_EQ(Run({"get"}).code, ExitCode::kInvalid);
  EXPECT_EQ(Run({"list", "-o", "xml"}).code, ExitCode::kInvalid);
  EXPECT_EQ(Run({"daemon"}).code, ExitCode::kInvalid);
  EXPECT_EQ(Run({"list", "--address", "example.com:80"}).code, ExitCode::kInvalid);
  const CliResult missing = Run({"submit", dir_ / "none.yaml", "--address", "127.0.0.1:1"});
  EXPECT_EQ(missing.code, ExitCode::kInvalid);
  EXPECT_THAT(missing.err, HasSubstr("No such file"));
}

TEST_F(CliTest, HelpNamesTheExitCodes) {
  const CliResult help = Run({"--help"});
  EXPECT_EQ(help.code, ExitCode::kOk);
  EXPECT_THAT(help.out, HasSubstr("  7    the job was cancelled\n"));
  EXPECT_THAT(Run({"metrics", "--help"}).out, HasSubstr("sequence,time,step,rank,key,value"));
  EXPECT_THAT(Run({"version"}).out, MatchesRegex("accelctl [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_THAT(Run({"--version"}).out, MatchesRegex("accelctl [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(CliTest, KwargsNeedNoDaemon) {
  const CliResult defaults = Run({"kwargs", "defaults"});
  EXPECT_EQ(defaults.code, ExitCode::kOk);
  EXPECT_THAT(defaults.out, HasSubstr("    \"bucket_cap_mb\": 25,\n"));

  const std::string file = WriteFile("h.yaml", "ddp_kwargs: {bucket_cap_mb: 50, dim: 1}\n");
  const CliResult diff = Run({"kwargs", "diff", file});
  EXPECT_EQ(diff.out,
            "{\n  \"ddp_kwargs\": {\n    \"dim\": 1,\n    \"bucket_cap_mb\": 50\n  }\n}\n");
  EXPECT_THAT(diff.err, HasSubstr("accelctl: warning: accelerator.ddp_kwargs.dim"));
  EXPECT_EQ(Run({"kwargs", "diff", "-", "-o", "table"}, "ddp_kwargs: {bucket_cap_mb: 50}").out,
            "ddp_kwargs.bucket_cap_mb  50\n");

  EXPECT_THAT(Run({"kwargs", "resolve"}).out, HasSubstr("\"backend\": \"gloo\""));
  EXPECT_THAT(Run({"kwargs", "resolve", "--device", "cuda"}).out,
              HasSubstr("\"backend\": \"nccl\""));
  const CliResult bad = Run({"kwargs", "resolve", "-"}, "ddp_kwargs: {bucket_cap_mb: 0}");
  EXPECT_EQ(bad.code, ExitCode::kInvalid);
  EXPECT_THAT(bad.err, HasSubstr("\naccelerator.ddp_kwargs.bucket_cap_mb: "));
}

}  // namespace
}  // namespace accel::cli
