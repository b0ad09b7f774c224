"""Print the command-line reference as Markdown, made from the commands' own help.

With the argument ``zh`` the page is in Chinese, except for the help itself.
"""

import sys
from collections.abc import Iterator
from typing import Final

import click

from memfin.cli.main import memfin

HEADER: Final = """# Command line

[中文](zh/cli.md)

This page is made from the commands' help by `make generated`; `memfin COMMAND --help` shows the same.

Data goes to standard output, everything else to standard error. Exit codes: 0 done; 1 done, but a
gate failed or there are findings; 2 bad usage or input; 3 stopped by a fault of the machine;
130 and 143 stopped by a signal.

| command | does |
|---|---|"""
CHINESE_HEADER: Final = """# 命令行

[English](../cli.md)

本页由 `make generated` 根据各命令的帮助生成；`memfin COMMAND --help` 显示同样的内容。帮助为英文；
选项的中文说明见配置页和各专题页。

数据写到标准输出，其他内容一律写到标准错误。退出码：0 完成；1 完成，但有门槛未通过或有发现；
2 用法或输入有误；3 因机器故障停止；130 和 143 因信号停止。

| 命令 | 作用 |
|---|---|"""
CHINESE: Final = {
    "init": "在 DIRECTORY（默认为当前目录）中写出一个小数据集、一个智能体和 memfin.toml。",
    "import": "把录制的对话转换为轨迹或数据集，把题目集转换为基准测试。",
    "import chat": "把聊天记录 FILE 转换为对话；其中的回复成为不带标签的参考回复。",
    "import inspect": "把 inspect_ai 日志 LOG（.eval、.json）的样本转换为对话轨迹。",
    "import langfuse": "把从 Langfuse 导出的 FILE 转换为对话轨迹。",
    "import otel": "把 OTLP 文件 FILE 中的 OpenTelemetry span 转换为对话轨迹。",
    "import phoenix": "把从 Arize Phoenix 导出的 FILE 转换为对话轨迹。",
    "import beam": "把 BEAM 的对话和问题 FILE 转换为带有探针的会话。",
    "import halumem": "把 HaluMem 的对话和问题 FILE 转换为带有探针的会话。",
    "import locomo": "把 LoCoMo 的对话和问题 FILE 转换为带有探针的会话。",
    "import longmemeval": "把 LongMemEval 的对话和问题 FILE 转换为带有探针的会话。",
    "import memoryagentbench": "把 MemoryAgentBench 的对话和问题 FILE 转换为带有探针的会话。",
    "import ragbench": "把 FinanceBench 或 RAGAS 形状的题目转换为 memfin bench 的基准测试。",
    "dataset": "维护对话数据集。",
    "dataset add": "向数据集 FILE 追加一段对话；没有给出 --user 或 --from 时，在提示符下输入。",
    "dataset perturb": "把 FILE 的对话及其扰动变体写入新文件。",
    "dataset check": "报告 memfin validate 的发现，以及不起作用的记忆键和风险标签；统计各类标签。",
    "dataset new": "新建数据集 FILE，在提示符下输入对话。",
    "run": "用 DATASET（对话的 JSONL 文件或插件，默认为内置样例）评测智能体。",
    "resume": "从停止的地方继续 RUN_DIR 中的运行、基准测试或压测。",
    "merge": "把一次运行的全部分片合并为一个运行。",
    "soak": "用 DATASET 一个周期接一个周期地评测智能体，直到达到 --duration 或 --epochs。",
    "score": "根据 DIALOG_TRACE 重新生成 turn_eval.jsonl 和各项指标。",
    "aggregate": "以 JSON 格式把 TURN_EVAL 的指标汇总输出到标准输出。",
    "validate": "报告每一处违反契约的地方，格式为 file:line: path: message。",
    "schema": "输出一个契约的 JSON Schema（2020-12），或契约的列表。",
    "report": "在运行或压测的目录中写出 report.md 和 report.html，并输出其路径。",
    "compare": "把其他运行与 RUN_A 比较：对话评测的运行、基准测试的运行，或 inspect_ai 的日志。",
    "bench": "用 PATH（含 questions/*.json 的目录，或一个题目文件）的题目向系统提问。",
    "check": "输出离线检测器在回复中的发现，格式为 file:line: label: words (rule)。",
    "validity": "用 LABELS 中带标注的回复检验检测器或评判。",
    "correct": "用部分轮次的标注校正一次运行的比率，并给出区间。",
    "plan": "计算要达到给定宽度或判定门槛需要多少标注，并抽取要标注的轮次。",
    "signoff": "写出 RUN 的签核页：一个可打印、可签字的 HTML 文件，并输出其路径。",
    "bundle": "把 RUN 的证据写进一个 zip 文件，并输出其 SHA-256 和名称。",
    "verify": "离线核对 BUNDLE，即一次运行的证据。",
    "upload": "把完成的运行 RUN_DIR 复制到 URL/RUN_ID，并逐个文件读回核对。",
    "download": "把上传到 URL 的运行复制到新目录，并核对每个文件。",
    "plugins": "列出已安装软件包提供的智能体、评判和其他插件，不导入它们。",
    "export": "把一次运行的记录写成表格、span 或其他工具的格式。",
    "view": "在浏览器中逐轮查看 RUNS_DIR（默认为 runs）中的运行。",
    "label": "打开网页，由人标注从 RUN 中随机抽取的轮次。",
    "rate-server": "为多个运行发放请求许可，使它们合起来遵守每分钟的限额。",
    "mcp": "通过标准输入和标准输出，向 MCP 客户端提供 RUNS_DIR（默认为 runs）中的运行。",
    "memory": "提供以同意为前提的记忆层服务，并维护其数据。",
    "memory delete": "永久删除一个账户：它的全部数据和令牌；只留下有两个字段的记录。",
    "memory expire": "删除过期的任务上下文，复查重新打开的关注问题，完成中断的操作。",
    "memory export": "导出所记住的一个用户的全部内容，附带含校验和的清单。",
    "memory import": "导入一个尚不存在的用户的导出包，目录或 zip 文件均可。",
    "memory import-items": "从 FILE 导入一个用户的记忆：mem0 或 LangGraph 存储的 JSON 或 JSON Lines。",
    "memory mcp": "通过标准输入和标准输出，向 MCP 客户端提供一个用户的记忆：记住、检索、更正和删除。",
    "memory serve": "提供 REST 接口和网页，直到收到 SIGINT 或 SIGTERM。",
    "memory token": "创建和撤销记忆服务的令牌；每个令牌代表一个用户。",
    "memory token add": "为用户创建令牌，只显示这一次；只保存其哈希。",
    "memory token list": "列出令牌：id、用户、创建时间。",
    "memory token revoke": "撤销令牌；运行中的服务随即拒绝它。",
    "memory verify": "把导出包（目录或 zip 文件）的每个字节与其清单核对。",
}
"""What each command does, for the Chinese page."""


def commands(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of every command below one, those of groups before their own commands."""
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None:
                inner = click.Context(
                    command, info_name=name, parent=context, max_content_width=100, terminal_width=100
                )
                yield inner
                yield from commands(inner)


def main(language: str = "en") -> None:
    """Print the reference."""
    context = click.Context(memfin, info_name="memfin", max_content_width=100, terminal_width=100)
    found = list(commands(context))
    does = {inner.command_path: (inner.command.help or "").partition("\n\n")[0] for inner in found}
    if language == "zh":
        chinese = {f"memfin {name}": text for name, text in CHINESE.items()}
        if differing := sorted(chinese.keys() ^ does.keys()):
            sys.exit(f"{__file__}: CHINESE must have a line for each command: {', '.join(differing)}")
        does = chinese
    print(CHINESE_HEADER if language == "zh" else HEADER)
    for path, text in does.items():
        print(f"| [`{path}`](#{path.replace(' ', '-')}) | {text} |")
    print()
    for inner in found:
        print(f"## {inner.command_path}\n\n```text\n{inner.command.get_help(inner)}\n```\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
