//! Small `useradd`, `usermod` and their kin for tests, over books that lie on the machine in memory.

use std::path::Path;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, exit};
use zester_host::{Exit, Group, HostRead, HostWrite, Launch, NewFile, Owner, Program, User};

/// Machines with the user `web`, who has a home and is in `staff`.
pub(crate) const WEB: &str = "web";

/// The books as rows of fields.
struct Books {
    passwd: Vec<Vec<String>>,
    shadow: Vec<Vec<String>>,
    group: Vec<Vec<String>>,
}

/// What these programs write.
pub(crate) const BOOKS: &[&str] = &["/etc/passwd", "/etc/shadow", "/etc/group"];

fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines().map(|line| line.split(':').map(str::to_string).collect()).collect()
}

fn row(line: &str) -> Vec<String> {
    line.split(':').map(str::to_string).collect()
}

impl Books {
    fn read(host: &Overlay) -> Books {
        let book =
            |path: &str| rows(&String::from_utf8(host.read(Path::new(path), 1 << 20).unwrap()).unwrap());
        Books { passwd: book(BOOKS[0]), shadow: book(BOOKS[1]), group: book(BOOKS[2]) }
    }

    fn write(&mut self, host: &Overlay) {
        // Whoever goes and comes back has the same place.
        self.passwd.sort_by_key(|row| row[2].parse::<u32>().unwrap());
        self.group.sort_by_key(|row| row[2].parse::<u32>().unwrap());
        self.shadow.sort();
        for (path, rows) in BOOKS.iter().zip([&self.passwd, &self.shadow, &self.group]) {
            let text: String = rows.iter().map(|row| row.join(":") + "\n").collect();
            let file = NewFile { content: text.as_bytes(), mode: 0o640, owner: Owner { uid: 0, gid: 0 } };
            host.put_file(Path::new(path), &file).unwrap();
        }
        for user in &self.passwd {
            let (uid, gid) = (user[2].parse().unwrap(), user[3].parse().unwrap());
            host.predict_user(User { name: user[0].clone(), uid, gid, home: (&user[5]).into() });
        }
        for group in &self.group {
            host.predict_group(Group { name: group[0].clone(), gid: group[2].parse().unwrap() });
        }
    }

    fn user(&mut self, name: &str) -> Option<&mut Vec<String>> {
        self.passwd.iter_mut().find(|row| row[0] == name)
    }

    fn group(&mut self, name: &str) -> Option<&mut Vec<String>> {
        self.group.iter_mut().find(|row| row[0] == name)
    }

    fn set_groups(&mut self, user: &str, groups: &str) {
        let wanted: Vec<&str> = groups.split(',').collect();
        for group in &mut self.group {
            let mut members: Vec<&str> =
                group[3].split(',').filter(|name| !name.is_empty() && *name != user).collect();
            if wanted.contains(&group[0].as_str()) {
                members.push(user);
            }
            members.sort_unstable();
            group[3] = members.join(",");
        }
    }
}

fn today(host: &Overlay) -> i128 {
    host.now_ns() / (86_400 * 1_000_000_000)
}

fn failed(words: &str) -> Exit {
    exit(9, "", words)
}

/// The value behind an option.
fn option<'a>(words: &'a [String], letter: &str) -> Option<&'a String> {
    words.iter().position(|word| word == letter).and_then(|at| words.get(at + 1))
}

fn useradd(host: &Overlay, books: &mut Books, words: &[String], name: &str) -> Exit {
    if books.user(name).is_some() {
        return failed(&format!("useradd: user '{name}' already exists"));
    }
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let uid = option(words, "-u").cloned().unwrap_or_else(|| {
        let taken: Vec<u32> = books.passwd.iter().map(|row| row[2].parse().unwrap()).collect();
        super::entries::next_number(taken.into_iter(), has("-r")).to_string()
    });
    let gid = match option(words, "-g") {
        Some(gid) => gid.clone(),
        None if has("-N") => "100".to_string(),
        None => {
            books.group.push(row(&format!("{name}:x:{uid}:")));
            uid.clone()
        }
    };
    let text =
        |letter: &str, unset: &str| option(words, letter).cloned().unwrap_or_else(|| unset.to_string());
    let home = text("-d", &format!("/home/{name}"));
    let (comment, shell) = (text("-c", ""), text("-s", "/bin/sh"));
    books.passwd.push(row(&format!("{name}:x:{uid}:{gid}:{comment}:{home}:{shell}")));
    books.shadow.push(row(&format!("{name}:!:{}:0:99999:7:::", today(host))));
    books.set_groups(name, &text("-G", ""));
    if has("-m") && host.stat(Path::new(&home)).unwrap().is_none() {
        let owner = Owner { uid: uid.parse().unwrap(), gid: gid.parse().unwrap() };
        host.make_directory(Path::new(&home), 0o755, owner).unwrap();
    }
    exit(0, "", "")
}

fn usermod(books: &mut Books, words: &[String], name: &str) -> Exit {
    let Some(user) = books.user(name) else { return failed("usermod: no such user") };
    for (letter, field) in [("-u", 2), ("-g", 3), ("-c", 4), ("-d", 5), ("-s", 6)] {
        if let Some(value) = option(words, letter) {
            user[field].clone_from(value);
        }
    }
    if let Some(groups) = option(words, "-G") {
        books.set_groups(name, groups);
    }
    exit(0, "", "")
}

fn userdel(host: &Overlay, books: &mut Books, name: &str) -> Exit {
    books.set_groups(name, "");
    books.passwd.retain(|row| row[0] != name);
    books.shadow.retain(|row| row[0] != name);
    books.group.retain(|row| row[0] != name);
    host.predict_no_user(name);
    host.predict_no_group(name);
    exit(0, "", "")
}

fn answer(host: &Overlay, launch: &Launch) -> Option<Exit> {
    let Program::Argv(words) = &launch.program else { return None };
    let (program, name) = (words.first()?.as_str(), words.last()?.clone());
    let mut books = Books::read(host);
    let done = match program {
        "useradd" => useradd(host, &mut books, words, &name),
        "usermod" => usermod(&mut books, words, &name),
        "userdel" => userdel(host, &mut books, &name),
        "chpasswd" => {
            let input = String::from_utf8(launch.stdin.clone()?).unwrap();
            let (user, hash) = input.trim_end().split_once(':')?;
            let row = books.shadow.iter_mut().find(|row| row[0] == user)?;
            row[1] = hash.to_string();
            row[2] = today(host).to_string();
            exit(0, "", "")
        }
        "chage" => {
            let row = books.shadow.iter_mut().find(|row| row[0] == name)?;
            for (field, letter) in ["-d", "-m", "-M", "-W", "-I", "-E"].iter().enumerate() {
                if let Some(value) = option(words, letter) {
                    row[field + 2] = if value == "-1" { String::new() } else { value.clone() };
                }
            }
            exit(0, "", "")
        }
        "groupadd" => {
            let taken: Vec<u32> = books.group.iter().map(|row| row[2].parse().unwrap()).collect();
            let system = words.iter().any(|word| word == "-r");
            let free = super::entries::next_number(taken.into_iter(), system).to_string();
            let gid = option(words, "-g").unwrap_or(&free);
            if books.group.iter().any(|row| row[0] == name) {
                return Some(failed(&format!("groupadd: group '{name}' already exists")));
            }
            books.group.push(row(&format!("{name}:x:{gid}:")));
            exit(0, "", "")
        }
        "groupmod" => {
            let gid = option(words, "-g")?.clone();
            books.group(&name)?[2] = gid;
            exit(0, "", "")
        }
        "groupdel" => {
            let gid = books.group(&name)?[2].clone();
            if books.passwd.iter().any(|row| row[3] == gid) {
                return Some(failed("groupdel: cannot remove the primary group of user 'web'"));
            }
            books.group.retain(|row| row[0] != name);
            host.predict_no_group(&name);
            exit(0, "", "")
        }
        "gpasswd" => {
            let members = option(words, "-M")?.clone();
            books.group(&name)?[3] = members;
            exit(0, "", "")
        }
        _ => return None,
    };
    books.write(host);
    Some(done)
}

/// A machine with `root`, the groups `wheel` and `staff`, the user `directory` of whom only the name service knows, and `web`
/// where the world is [`WEB`].
pub(crate) fn fake_books(host: &Arc<Overlay>, world: &str) -> Arc<Scripted> {
    let owner = Owner { uid: 0, gid: 0 };
    for directory in ["/etc", "/home", "/srv"] {
        host.make_directory(Path::new(directory), 0o755, owner).unwrap();
    }
    let mut books = Books {
        passwd: vec![row("root:x:0:0:root:/root:/bin/bash")],
        shadow: vec![row("root:*:19000:0:99999:7:::")],
        group: vec![row("root:x:0:"), row("wheel:x:10:"), row("users:x:100:"), row("staff:x:50:")],
    };
    if world == WEB {
        books.passwd.push(row("web:x:1400:1400:Web Server:/home/web:/bin/sh"));
        books.shadow.push(row("web:$y$old:19000:0:99999:7:::"));
        books.set_groups("web", "staff");
        books.group.push(row("web:x:1400:"));
        host.make_directory(Path::new("/home/web"), 0o750, Owner { uid: 1400, gid: 1400 }).unwrap();
    }
    books.write(host);
    host.predict_user(User { name: "directory".into(), uid: 5000, gid: 50, home: "/home/directory".into() });
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| answer(&*host.upgrade()?, launch).map(Ok)))
}
