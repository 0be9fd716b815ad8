//! The words of messages in each language. What is not a word is data: names, numbers, times, errors, commands and addresses.

use std::time::Duration;

use super::message::Reason;
use crate::alerts::config::Language;
use crate::job::incident::{Incident, IncidentKind, OTHERS};

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    What,
    Where,
    Since,
    Resolved,
    Jobs,
    Example,
    Look,
    Silence,
    Sent,
}

impl Language {
    /// A line that says this.
    pub(super) fn line(self, line: Line, text: &str) -> String {
        let name = match line {
            Line::What => self.either("What", "问题"),
            Line::Where => self.either("Where", "位置"),
            Line::Since => self.either("Since", "开始时间"),
            Line::Resolved => self.either("Resolved", "解决时间"),
            Line::Jobs => self.either("Jobs", "任务数"),
            Line::Example => self.either("Example", "示例"),
            Line::Look => self.either("Look", "查看"),
            Line::Silence => self.either("Silence", "不再提醒"),
            Line::Sent => self.either("Sent", "发送时间"),
        };
        self.with_colon(name, text)
    }

    /// Why a message about an incident is sent.
    pub(super) fn heading(self, reason: Reason) -> &'static str {
        match reason {
            Reason::Opened => self.either("OPEN", "新事件"),
            Reason::Reminder => self.either("STILL OPEN", "尚未解决"),
            Reason::Resolved => self.either("RESOLVED", "已解决"),
        }
    }

    /// The title of a message about one incident, without the tags.
    pub(super) fn title(self, reason: Reason, incident: &Incident) -> String {
        self.with_colon(self.heading(reason), &self.what(incident))
    }

    /// What is wrong in a few words, and in which queue.
    fn what(self, incident: &Incident) -> String {
        let queue = incident.queue.as_ref();
        match self {
            Self::En => {
                let between = if incident.kind == IncidentKind::QueuePaused { ":" } else { " in" };
                let place = queue.map_or_else(String::new, |queue| format!("{between} {queue}"));
                format!("{}{place}", incident.kind.title())
            }
            Self::ZhCn => {
                let place = queue.map_or_else(String::new, |queue| format!("（队列 {queue}）"));
                format!("{}{place}", chinese(incident.kind))
            }
        }
    }

    /// The title of a message about several incidents, without the tags.
    pub(super) fn titles(self, count: usize, of: impl Fn(Reason) -> usize) -> String {
        let parts = [Reason::Opened, Reason::Reminder, Reason::Resolved].map(|reason| (of(reason), reason));
        let parts =
            parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, reason)| match (self, reason) {
                (Self::En, Reason::Opened) => format!("{count} new"),
                (Self::En, Reason::Reminder) => format!("{count} still open"),
                (Self::En, Reason::Resolved) => format!("{count} resolved"),
                (Self::ZhCn, reason) => format!("{count} 个{}", self.heading(reason)),
            });
        let parts: Vec<String> = parts.collect();
        match self {
            Self::En => format!("{count} incidents: {}", parts.join(", ")),
            Self::ZhCn => format!("{count} 个事件：{}", parts.join("，")),
        }
    }

    /// What is wrong, as one sentence. English says more: those who look write it so.
    pub(super) fn detail(self, incident: &Incident, age: Duration) -> String {
        if self == Self::En {
            return incident.detail.clone();
        }
        let (count, key) = (incident.count, &incident.key);
        let what = chinese(incident.kind);
        if *key == OTHERS {
            return format!("{what}：没有单独列出的其余部分");
        }
        // Later versions may have more kinds.
        match incident.kind.as_str() {
            "dead_group" => format!("{count} 个任务因同一原因失败"),
            "dead_rate" => format!("{count} 个任务失败，原因都不是新出现的"),
            "dead_job" => "任务已失败，不再重试".to_owned(),
            "backlog" => "最早的任务等待的时间超过了队列的目标".to_owned(),
            "no_worker" => format!("{count} 个任务在等待，而没有在线的工作进程"),
            "unserved_type" => format!("{count} 个任务在等待，而没有工作进程认识类型 {key}"),
            "pool_down" => format!("进程池 {key} 的程序都无法启动"),
            "needs_decision" => format!("{count} 个任务的步骤需要有人决定"),
            "campaign_stopped" => format!("批量重放 {key} 自行停止"),
            "queue_paused" => format!("队列已暂停 {}", self.age(age)),
            "redis_memory" if key.is_empty() => "可用内存所剩无几".to_owned(),
            "redis_memory" => format!("{key} 的可用内存所剩无几"),
            "history_behind" => format!("{count} 个任务的结束尚未写入数据库"),
            "history_lost" => format!("历史记录缺少 {count} 个任务的结束，因为暂存区已满"),
            "outbox_stuck" => format!("发件箱中的 {count} 行没有成为任务"),
            _ => what.to_owned(),
        }
    }

    /// Where it is.
    pub(super) fn place(self, namespace: &str, incident: &Incident) -> String {
        let [of_namespace, of_queue, of_type, between] =
            self.either(["namespace", "queue", "type", ", "], ["命名空间", "队列", "类型", "，"]);
        let mut parts = vec![format!("{of_namespace} {namespace}")];
        parts.extend(incident.queue.iter().map(|queue| format!("{of_queue} {queue}")));
        if !incident.job_type.is_empty() {
            parts.push(format!("{of_type} {}", incident.job_type));
        }
        parts.join(between)
    }

    /// A time, and how long ago it was.
    pub(super) fn ago(self, time: &str, age: Duration) -> String {
        match self {
            Self::En => format!("{time} ({} ago)", self.age(age)),
            Self::ZhCn => format!("{time}（{}前）", self.age(age)),
        }
    }

    /// A job, and its error if it is to be told.
    pub(super) fn example(self, job: &str, error: &str) -> String {
        let job = if job.is_empty() { self.either("a job", "一个任务") } else { job };
        if error.is_empty() { job.to_owned() } else { self.with_colon(job, error) }
    }

    /// One incident of several, on one line.
    pub(super) fn summary(self, reason: Reason, incident: &Incident, age: Duration) -> String {
        let (heading, what, detail) = (self.heading(reason), self.what(incident), self.detail(incident, age));
        let (age, count) = (self.age(age), incident.count);
        match (self, count) {
            (Self::En, 0) => format!("{heading} {what}, for {age}: {detail}"),
            (Self::En, _) => format!("{heading} {what} ({count} jobs), for {age}: {detail}"),
            (Self::ZhCn, 0) => format!("{heading} {what}，已持续 {age}：{detail}"),
            (Self::ZhCn, _) => format!("{heading} {what}（{count} 个任务），已持续 {age}：{detail}"),
        }
    }

    /// How many incidents have no line.
    pub(super) fn more(self, count: usize) -> String {
        match self {
            Self::En => format!("and {count} more"),
            Self::ZhCn => format!("另有 {count} 个事件"),
        }
    }

    /// What stands for the reason in the command that silences.
    pub(super) fn reason(self) -> &'static str {
        self.either("TEXT", "原因")
    }

    /// The title of a test message, without the tags.
    pub(super) fn test(self, sink: &str) -> String {
        match self {
            Self::En => format!("TEST: a message to the sink {sink}"),
            Self::ZhCn => format!("测试：发往接收端 {sink} 的消息"),
        }
    }

    /// What a test message says.
    pub(super) fn tested(self) -> &'static str {
        self.either(
            "Nothing is wrong. Somebody ran `streamfleet alerts test`.",
            "一切正常。有人运行了 `streamfleet alerts test`。",
        )
    }

    /// What a link to the console's page about a message is called.
    pub(super) fn console(self) -> &'static str {
        self.either("Open the console", "打开控制台")
    }

    /// What a link to the page of a job is called, where somebody decides about its step, or else replays it.
    pub(super) fn job(self, needs_decision: bool) -> &'static str {
        if needs_decision {
            self.either("Open the job, to decide", "打开任务，以便决定")
        } else {
            self.either("Open the job, to replay it", "打开任务，以便重放")
        }
    }

    pub(super) fn with_colon(self, before: &str, after: &str) -> String {
        match self {
            Self::En => format!("{before}: {after}"),
            Self::ZhCn => format!("{before}：{after}"),
        }
    }

    fn either<T>(self, english: T, chinese: T) -> T {
        match self {
            Self::En => english,
            Self::ZhCn => chinese,
        }
    }

    fn age(self, age: Duration) -> String {
        let seconds = age.as_secs();
        let [day, hour, minute, second] = self.either(["d", "h", "m", "s"], [" 天", " 小时", " 分钟", " 秒"]);
        match seconds {
            0..60 => format!("{seconds}{second}"),
            60..3600 => format!("{}{minute}", seconds / 60),
            3600..172_800 => format!("{}{hour} {}{minute}", seconds / 3600, seconds % 3600 / 60),
            _ => format!("{}{day} {}{hour}", seconds / 86_400, seconds % 86_400 / 3600),
        }
    }
}

/// What is wrong, in Chinese: the words of the console.
const CHINESE: [(IncidentKind, &str); 14] = [
    (IncidentKind::DeadGroup, "任务因新原因失败"),
    (IncidentKind::DeadRate, "大量任务失败"),
    (IncidentKind::DeadJob, "有任务失败"),
    (IncidentKind::Backlog, "任务等待过久"),
    (IncidentKind::NoWorker, "没有在线的工作进程"),
    (IncidentKind::UnservedType, "没有工作进程认识某类型"),
    (IncidentKind::PoolDown, "进程池无法启动"),
    (IncidentKind::NeedsDecision, "有任务需要决定"),
    (IncidentKind::CampaignStopped, "批量重放自行停止"),
    (IncidentKind::QueuePaused, "队列仍处于暂停"),
    (IncidentKind::RedisMemory, "Redis 内存将满"),
    (IncidentKind::HistoryBehind, "历史记录滞后"),
    (IncidentKind::HistoryLost, "历史记录缺少任务"),
    (IncidentKind::OutboxStuck, "发件箱停滞"),
];

fn chinese(kind: IncidentKind) -> &'static str {
    let found = CHINESE.into_iter().find(|(known, _)| *known == kind);
    found.map_or_else(|| kind.title(), |(_, words)| words)
}
