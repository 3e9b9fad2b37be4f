#include "client/cli/completion.h"

#include <array>
#include <cstdio>

#include "tests/unit/cli/cli_test_fixture.h"

namespace accel::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Drives the bash script as bash does: the words typed so far, the last one being completed.
class BashCompletionTest : public CliTest {
 protected:
  std::string Complete(const std::vector<std::string>& words) {
    const std::string script = WriteFile("completion.bash", Run({"completion", "bash"}).out);
    // Stands for the real program where jobs are asked for.
    const std::string program = WriteFile(
        "accelctl", "#!/bin/sh\n[ \"$1 $2\" = 'list --names' ] && printf 'mnist\\ntext\\n'\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    std::string command =
        "cd '" + dir_.path().string() + "' && . '" + script + "' && COMP_WORDS=('" + program + "'";
    for (const std::string& word : words) command += " '" + word + "'";
    command +=
        absl::StrCat(") && COMP_CWORD=", words.size(), " && _accelctl; echo ${COMPREPLY[*]}");
    const std::string driver = WriteFile("driver.bash", command);
    FILE* pipe = popen(("bash '" + driver + "' 2>&1").c_str(), "r");
    std::string output;
    std::array<char, 4096> buffer;
    while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) output += buffer.data();
    EXPECT_EQ(pclose(pipe), 0) << output;
    return output;
  }
};

TEST_F(BashCompletionTest, Commands) {
  EXPECT_EQ(Complete({"da"}), "daemon\n");
  EXPECT_EQ(Complete({"-o", "json", "kw"}), "kwargs\n");
  EXPECT_EQ(Complete({"daemon", ""}), "start stop status\n");
  EXPECT_EQ(Complete({"kwargs", "d"}), "defaults diff\n");
  EXPECT_EQ(Complete({"completion", ""}), "bash zsh fish\n");
}

TEST_F(BashCompletionTest, FlagsWithTheGlobalOnes) {
  EXPECT_THAT(Complete({"metrics", "-"}), AllOf(HasSubstr("--csv"), HasSubstr("--follow"),
                                                HasSubstr("-f"), HasSubstr("--address")));
  EXPECT_EQ(Complete({"submit", "--v"}), "--validate-only\n");
  EXPECT_EQ(Complete({"daemon", "start", "--metrics"}), "--metrics-address\n");
}

TEST_F(BashCompletionTest, Values) {
  EXPECT_EQ(Complete({"list", "--state", "S"}), "STARTING STOPPING SUCCEEDED\n");
  EXPECT_EQ(Complete({"list", "-o", ""}), "json yaml table\n");
  EXPECT_EQ(Complete({"kwargs", "diff", "--device", "c"}), "cpu cuda\n");
}

TEST_F(BashCompletionTest, JobsComeFromTheDaemon) {
  EXPECT_EQ(Complete({"get", ""}), "mnist text\n");
  EXPECT_EQ(Complete({"logs", "-f", "--rank", "1", "m"}), "mnist\n");
}

TEST_F(BashCompletionTest, Files) {
  WriteFile("job-one.yaml", "");
  EXPECT_EQ(Complete({"run", "job-"}), "job-one.yaml\n");
  EXPECT_EQ(Complete({"run", "--id", "x", "job-"}), "job-one.yaml\n");
}

TEST_F(CliTest, EveryShellHasAScript) {
  EXPECT_THAT(Run({"completion", "zsh"}).out, HasSubstr("bashcompinit"));
  EXPECT_THAT(Run({"completion", "fish"}).out,
              HasSubstr("complete -c accelctl -n '__accelctl_at list' -l state -x -a 'QUEUED"));
  EXPECT_EQ(Run({"completion", "tcsh"}).code, ExitCode::kInvalid);
}

}  // namespace
}  // namespace accel::cli
