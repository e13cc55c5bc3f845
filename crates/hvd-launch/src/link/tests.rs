//! Two ends of a link over a pipe in memory.

use tokio::{io::duplex, time};

use super::*;

type TestLink = AgentLink<String, String>;

fn pair() -> (TestLink, TestLink) {
    let (one, other) = duplex(1 << 16);
    let ((one_in, one_out), (other_in, other_out)) =
        (tokio::io::split(one), tokio::io::split(other));
    (
        AgentLink::start(one_in, one_out),
        AgentLink::start(other_in, other_out),
    )
}

async fn opened(link: &mut TestLink) -> (String, Channel) {
    match link.next_event().await {
        LinkEvent::ChannelOpened(purpose, channel) => (purpose, channel),
        other => panic!("{other:?} instead of a channel"),
    }
}

#[tokio::test(start_paused = true)]
async fn messages_and_channels_do_not_hinder_each_other() {
    let (mut agent, mut driver) = pair();
    let stalled = agent.open(&"output");
    let tunnel = agent.open(&"store");
    let (purpose, _never_read) = opened(&mut driver).await;
    assert_eq!(purpose, "output");
    let (_, mut far) = opened(&mut driver).await;
    let flood = vec![7; 1 << 20];
    tokio::select! {
        biased;
        sent = stalled.sender.send(&flood) => panic!("sent more than the window: {sent:?}"),
        () = async {
            tunnel.sender.send(b"question").await.unwrap();
            assert_eq!(far.receiver.receive().await.unwrap(), b"question");
            far.sender.send(b"answer").await.unwrap();
        } => {}
    }
    agent.outgoing().send_message(&"hello");
    assert!(matches!(driver.next_event().await, LinkEvent::Message(text) if text == "hello"));
}

#[tokio::test(start_paused = true)]
async fn a_channel_carries_more_than_its_window_and_then_its_end() {
    let (mut agent, mut driver) = pair();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let channel = agent.open(&"output");
    let (_, mut far) = opened(&mut driver).await;
    let sending = async {
        channel.sender.send(&sent).await.unwrap();
        drop(channel);
    };
    let receiving = async {
        let mut received = Vec::new();
        while let Some(bytes) = far.receiver.receive().await {
            received.extend(bytes);
        }
        received
    };
    let ((), received) = tokio::join!(sending, receiving);
    assert!(received == sent, "{} bytes arrived", received.len());
}

#[tokio::test(start_paused = true)]
async fn an_idle_link_stays_and_a_silent_one_is_given_up() {
    let (mut agent, driver) = pair();
    assert!(
        timeout(10 * SILENCE, agent.next_event()).await.is_err(),
        "signs of life keep it"
    );
    driver.writer.abort();
    // Nothing is closed, as when a cable is cut.
    let began = time::Instant::now();
    let channel = agent.open(&"output");
    assert!(matches!(
        agent.next_event().await,
        LinkEvent::Lost(Loss::Silent)
    ));
    assert!(began.elapsed() <= SILENCE + PULSE);
    assert!(
        channel
            .sender
            .send(&vec![0; WINDOW_AND_MORE])
            .await
            .is_err()
    );
    drop(driver);
}

const WINDOW_AND_MORE: usize = 300 << 10;

#[tokio::test]
async fn what_was_said_before_the_end_is_still_heard() {
    let (agent, mut driver) = pair();
    for number in 0..100 {
        agent.outgoing().send_message(&number.to_string());
    }
    agent.finish(Duration::from_secs(5)).await;
    for number in 0..100 {
        assert!(
            matches!(driver.next_event().await, LinkEvent::Message(text) if text == number.to_string())
        );
    }
    assert!(matches!(
        driver.next_event().await,
        LinkEvent::Lost(Loss::Closed)
    ));
}

#[tokio::test]
async fn nonsense_ends_the_link() {
    let (near, far) = duplex(100);
    let (near_in, near_out) = tokio::io::split(near);
    let mut link = TestLink::start(near_in, near_out);
    let (_far_in, mut far_out) = tokio::io::split(far);
    far_out
        .write_all(&Packet::Message(b"{".to_vec()).encode().unwrap())
        .await
        .unwrap();
    assert!(matches!(
        link.next_event().await,
        LinkEvent::Lost(Loss::Broken(_))
    ));
}
