#include "core/config/text_format.h"

#include "accel/v1/job.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/unit/config/violations.h"

namespace accel::config {
namespace {

using accel::v1::AcceleratorConfig;
using accel::v1::Job;
using accel::v1::JobSpec;
using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr char kJob[] = R"yaml(
display_name: digits   # a comment
labels: {team: vision, run: 1, "a.b/c": "no"}
num_processes: 2
device: cpu
accelerator:
  mixed_precision: no
  ddp_kwargs:
    broadcast_buffers: False
    comm_hook: no
  init_process_group_kwargs: {timeout: 90}
  te_recipe_kwargs:
    override_linear_precision: [false, true, false]
model:
  mlp: {layer_sizes: [784, 128, 10], dropout: 1e-1}
data:
  train:
    file: examples/mnist.csv.gz
    csv:
  split: {evaluation_fraction: 0.2}
  batch_size: 64
loss: {cross_entropy: {}}
optimizer: {adamw: {lr: .001}}
schedule: {constant: }
loop: {num_epochs: 3, max_steps: "9007199254740993", seed: 1e3}
tracking: {trackers: [{tensorboard: }]}
)yaml";

TEST(ParseMessageTest, ReadsEveryKindOfField) {
  const JobSpec spec = Parse<JobSpec>(kJob);
  EXPECT_EQ(spec.display_name(), "digits");
  EXPECT_EQ(spec.labels().at("run"), "1");
  EXPECT_EQ(spec.labels().at("a.b/c"), "no");
  EXPECT_EQ(spec.num_processes(), 2);
  EXPECT_EQ(spec.accelerator().mixed_precision(), "no");
  EXPECT_EQ(spec.accelerator().ddp_kwargs().comm_hook(), "no");
  EXPECT_TRUE(spec.accelerator().ddp_kwargs().has_broadcast_buffers());
  EXPECT_FALSE(spec.accelerator().ddp_kwargs().broadcast_buffers());
  EXPECT_EQ(spec.accelerator().init_process_group_kwargs().timeout().seconds(), 90);
  EXPECT_THAT(spec.accelerator().te_recipe_kwargs().override_linear_precision(),
              ElementsAre(false, true, false));
  EXPECT_THAT(spec.model().mlp().layer_sizes(), ElementsAre(784, 128, 10));
  EXPECT_EQ(spec.model().mlp().dropout(), 0.1);
  EXPECT_TRUE(spec.data().train().has_csv());
  EXPECT_EQ(spec.optimizer().adamw().lr(), 0.001);
  EXPECT_TRUE(spec.schedule().has_constant());
  EXPECT_EQ(spec.loop().max_steps(), 9007199254740993);
  EXPECT_EQ(spec.loop().seed(), 1000);
  EXPECT_TRUE(spec.tracking().trackers(0).has_tensorboard());
}

TEST(ParseMessageTest, JsonAndYamlRoundTrip) {
  const JobSpec spec = Parse<JobSpec>(kJob);
  EXPECT_TRUE(MessageDifferencer::Equals(spec, Parse<JobSpec>(FormatJson(spec))));
  EXPECT_TRUE(MessageDifferencer::Equals(spec, Parse<JobSpec>(FormatYaml(spec))))
      << FormatYaml(spec);
}

TEST(ParseMessageTest, TextsThatLookLikeSomethingElseRoundTrip) {
  JobSpec spec;
  int i = 0;
  for (const char* text :
       {"no", "null", "~",    "",  "true", "1.5", "0x10", "a: b", "- a",      "#x", " x ",
        "\"", "'",    "a\nb", "{", "*a",   "&a",  "!t",   "%",    "\xc3\xa4", "\t", "2001-01-01"}) {
    (*spec.mutable_labels())[absl::StrCat("k", i++)] = text;
    (*spec.mutable_tracking()->mutable_config())[text] = text;
  }
  spec.set_display_name("null");
  EXPECT_TRUE(MessageDifferencer::Equals(spec, Parse<JobSpec>(FormatJson(spec))));
  EXPECT_TRUE(MessageDifferencer::Equals(spec, Parse<JobSpec>(FormatYaml(spec))))
      << FormatYaml(spec);
}

TEST(ParseMessageTest, NothingIsAnEmptyMessage) {
  for (const char* text : {"", "\n", "# only a comment\n", "{}", "---\n", "null"}) {
    JobSpec spec;
    spec.set_display_name("old");
    EXPECT_TRUE(ParseMessage(text, &spec).ok()) << text;
    EXPECT_EQ(spec.ByteSizeLong(), 0u) << text;
  }
}

TEST(ParseMessageTest, NullIsAbsentUnlessItSelectsAMember) {
  const JobSpec spec = Parse<JobSpec>("{display_name: null, accelerator: ~, loss: {mse: null}}");
  EXPECT_FALSE(spec.has_display_name());
  EXPECT_FALSE(spec.has_accelerator());
  EXPECT_TRUE(spec.loss().has_mse());
}

TEST(ParseMessageTest, ReadsDurations) {
  for (const auto& [text, seconds, nanos] :
       {std::tuple("600", 600, 0), std::tuple("0.25", 0, 250000000), std::tuple("600s", 600, 0),
        std::tuple("'1.5s'", 1, 500000000), std::tuple("10m", 600, 0),
        std::tuple("-1.5", -1, -500000000)}) {
    const auto config =
        Parse<AcceleratorConfig>(absl::StrCat("init_process_group_kwargs: {timeout: ", text, "}"));
    EXPECT_EQ(config.init_process_group_kwargs().timeout().seconds(), seconds) << text;
    EXPECT_EQ(config.init_process_group_kwargs().timeout().nanos(), nanos) << text;
  }
}

class RefusedText : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedText, NamesPathAndPlace) {
  JobSpec spec;
  const absl::Status status = ParseMessage(GetParam().text, &spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(ViolationsOf(status),
              ElementsAre(Pair(GetParam().path, HasSubstr(GetParam().description))));
  EXPECT_EQ(spec.ByteSizeLong(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, RefusedText,
    testing::Values(
        Refusal{"loop: {}\nmodel:\n  resnet: {}", "model.resnet",
                "unknown field; allowed: mlp, convnet, gpt, init_from (line 3, column 3)"},
        Refusal{"numProcesses: 2", "numProcesses", "unknown field; allowed: display_name, labels"},
        Refusal{"loss: {mse: {x: 1}}", "loss.mse.x", "unknown field; allowed: none"},
        Refusal{"num_processes: 2\nnum_processes: 3", "num_processes",
                "field is given twice (line 2, column 1)"},
        Refusal{"labels: {a: 1, a: 2}", "labels[\"a\"]", "key is given twice"},
        Refusal{"model: {mlp: {}, gpt: {}}", "model.gpt", "not allowed beside mlp"},
        Refusal{"num_processes: two", "num_processes",
                "\"two\" is not allowed; allowed: whole numbers from -2147483648 to 2147483647"},
        Refusal{"num_processes: 2147483648", "num_processes", "to 2147483647"},
        Refusal{"num_processes: 1.5", "num_processes", "whole numbers"},
        Refusal{"num_processes: true", "num_processes", "whole numbers"},
        Refusal{"num_processes: [2]", "num_processes", "a list is not allowed"},
        Refusal{"loop: {seed: 1e300}", "loop.seed", "whole numbers"},
        Refusal{"device: [cpu]", "device", "a list is not allowed; allowed: a text"},
        Refusal{"device: {cpu: 1}", "device", "a map is not allowed; allowed: a text"},
        Refusal{"data: {shuffle: 1}", "data.shuffle", "\"1\" is not allowed; allowed: true, false"},
        Refusal{"data: {shuffle: 'true'}", "data.shuffle", "allowed: true, false"},
        Refusal{"model: {mlp: {dropout: much}}", "model.mlp.dropout", "a number"},
        Refusal{"model: {mlp: {layer_sizes: 3}}", "model.mlp.layer_sizes",
                "\"3\" is not allowed; allowed: a list"},
        Refusal{"model: {mlp: {layer_sizes: [3, x]}}", "model.mlp.layer_sizes[1]", "whole numbers"},
        Refusal{"model: {mlp: {layer_sizes: [3, null]}}", "model.mlp.layer_sizes[1]",
                "null is not allowed"},
        Refusal{"model: mlp", "model", "\"mlp\" is not allowed; allowed: a map of fields"},
        Refusal{"model: [mlp]", "model", "a list is not allowed"},
        Refusal{"labels: [a]", "labels", "a map of texts"},
        Refusal{"labels: {a: [1]}", "labels[\"a\"]", "a text"},
        Refusal{"tracking: {trackers: {tensorboard: {}}}", "tracking.trackers", "a list"},
        Refusal{"tracking: {trackers: [{}, {tensorbord: {}}]}", "tracking.trackers[1].tensorbord",
                "unknown field"},
        Refusal{"device: !!python/object x", "device", "tag"},
        Refusal{"model: !mlp {}", "model", "tag \"!mlp\" is not allowed"},
        Refusal{"[1]: 2", "?", "unknown field"},
        Refusal{"<<: {device: cpu}", "<<", "unknown field"},
        Refusal{"accelerator: {init_process_group_kwargs: {timeout: soon}}",
                "accelerator.init_process_group_kwargs.timeout",
                "\"soon\" is not allowed; allowed: a number of seconds"},
        Refusal{"accelerator: {init_process_group_kwargs: {timeout: 1e300}}",
                "accelerator.init_process_group_kwargs.timeout", "a number of seconds"},
        Refusal{"accelerator: {init_process_group_kwargs: {timeout: .nan}}",
                "accelerator.init_process_group_kwargs.timeout", "a number of seconds"},
        Refusal{"accelerator: {init_process_group_kwargs: {timeout: {seconds: 1}}}",
                "accelerator.init_process_group_kwargs.timeout", "a number of seconds"}));

INSTANTIATE_TEST_SUITE_P(TopLevel, RefusedText,
                         testing::Values(Refusal{"- a", "", "a list is not allowed"},
                                         Refusal{"text", "", "\"text\" is not allowed"}));

TEST(ParseMessageTest, ReportsSeveralMistakesButNotThousands) {
  std::string text;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&text, "unknown", i, ": 1\n");
  JobSpec spec;
  EXPECT_EQ(ViolationsOf(ParseMessage(text, &spec)).size(), 50u);
}

std::string Error(absl::string_view text) {
  JobSpec spec;
  const absl::Status status = ParseMessage(text, &spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 100);
  return std::string(status.message());
}

TEST(ParseMessageTest, BadYamlNamesLineAndColumn) {
  EXPECT_THAT(Error("device: cpu\nmodel: {mlp: [}"), HasSubstr("line 2, column "));
  EXPECT_THAT(Error("a: b: c"), HasSubstr("line 1, column "));
  EXPECT_THAT(Error("device: *nobody"), HasSubstr("line 1, column "));
  EXPECT_THAT(Error("device: 'open"), HasSubstr("line 1, column "));
  EXPECT_THAT(Error("device: cpu\n---\ndevice: cuda\n"),
              HasSubstr("line 2, column 1: text beyond the only document"));
  EXPECT_THAT(Error(", a"), HasSubstr("text beyond the only document"));
}

TEST(ParseMessageTest, RefusesTextsThatAReaderWouldCutOrChange) {
  EXPECT_THAT(Error(absl::string_view("device: cpu\n\0model", 18)),
              HasSubstr("control character 0 at byte 12"));
  EXPECT_THAT(Error("device: cpu\n\x04"), HasSubstr("control character 4"));
  EXPECT_THAT(Error("device: \xff\xfe"), HasSubstr("not UTF-8"));
  EXPECT_THAT(Error(std::string("#") + std::string(1 << 20, 'x')), HasSubstr("1048577 bytes"));
}

TEST(ParseMessageTest, BoundsAliases) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    absl::StrAppend(&bomb, "a", i, ": &a", i, " [");
    for (int j = 0; j < 10; ++j) absl::StrAppend(&bomb, j ? ", " : "", "*a", i - 1);
    absl::StrAppend(&bomb, "]\n");
  }
  EXPECT_THAT(Error(bomb), HasSubstr("aliases make more than 1048576 bytes"));
  EXPECT_THAT(Error("a: &a [*a]"), HasSubstr("more than 64 levels"));
  EXPECT_THAT(Error("a: &a [*a, *a, *a]"), HasSubstr("more than"));
  const JobSpec spec =
      Parse<JobSpec>("data: {train: &d {file: a/b, csv: {}}, evaluation: *d, batch_size: 1}");
  EXPECT_EQ(spec.data().evaluation().file(), "a/b");
}

TEST(ParseMessageTest, BoundsDepth) {
  EXPECT_THAT(Error("a: " + std::string(100, '[') + std::string(100, ']')),
              HasSubstr("more than 64 levels"));
  EXPECT_THAT(Error("a: " + std::string(500000, '[')), HasSubstr("more than 64 levels"));
  EXPECT_THAT(Error(std::string(500000, '{')), HasSubstr("more than 64 levels"));
  std::string block;
  for (int i = 0; i < 700; ++i) absl::StrAppend(&block, std::string(i, ' '), "a:\n");
  EXPECT_THAT(Error(block), HasSubstr("more than 64 levels"));
}

TEST(FormatTest, JsonHasTwoSpacesAndTheProtosNames) {
  AcceleratorConfig config;
  config.mutable_ddp_kwargs()->set_bucket_cap_mb(0);
  config.mutable_ddp_kwargs()->mutable_comm_state_option()->set_start_powersgd_iter(5);
  config.mutable_init_process_group_kwargs()->mutable_timeout()->set_seconds(1800);
  EXPECT_EQ(FormatJson(config), R"({
  "ddp_kwargs": {
    "bucket_cap_mb": 0,
    "comm_state_option": {
      "start_powerSGD_iter": 5
    }
  },
  "init_process_group_kwargs": {
    "timeout": "1800s"
  }
})");
}

TEST(FormatTest, YamlQuotesWhatOtherReadersTakeForABoolean) {
  AcceleratorConfig config;
  config.set_mixed_precision("no");
  config.mutable_ddp_kwargs()->set_static_graph(true);
  config.mutable_autocast_kwargs();
  config.mutable_te_recipe_kwargs()->add_override_linear_precision(true);
  EXPECT_EQ(FormatYaml(config), R"(mixed_precision: "no"
autocast_kwargs: {}
ddp_kwargs:
  static_graph: true
te_recipe_kwargs:
  override_linear_precision: [true]
)");
}

TEST(FormatTest, EnumerationsAreNames) {
  Job job;
  job.set_state(Job::RUNNING);
  EXPECT_EQ(FormatYaml(job), "state: RUNNING\n");
  EXPECT_EQ(Parse<Job>("state: RUNNING").state(), Job::RUNNING);
  EXPECT_THAT(ViolationsOf(ParseMessage("state: RUNING", &job)),
              ElementsAre(Pair("state", HasSubstr("allowed: STATE_UNSPECIFIED, QUEUED"))));
}

}  // namespace
}  // namespace accel::config
